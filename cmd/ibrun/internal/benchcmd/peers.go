package benchcmd

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/bench"
	"github.com/ibrun/ibrun/internal/transports"
)

// implementation is an MPI that we know how to build for and to launch in its best documented setting.
type implementation struct {
	name     string // mpicc.NAME and mpirun.NAME are its commands
	packages string // of Debian and Ubuntu
	environ  []string
	alone    []string // launcher flags where every rank has a core of its own
	crowded  []string // and where there are more ranks than cores
	over     map[string]setting
}

// setting is what makes an implementation use one transport and no other.
type setting struct{ environ, flags []string }

// implementations are all we know.
func implementations() []implementation {
	return []implementation{
		{
			name:     "openmpi",
			packages: "openmpi-bin libopenmpi-dev",
			environ:  []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
			alone:    []string{"--bind-to", "core"},
			// Waiting ranks yield the core: Open MPI does so by itself when it knows of the crowd.
			crowded: []string{"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"},
			over: map[string]setting{transports.TCP.String(): {
				flags: []string{"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"},
			}},
		},
		{
			name:     "mpich",
			packages: "mpich libmpich-dev",
			alone:    []string{"-bind-to", "core"},
			crowded:  []string{"-bind-to", "none"}, // it has no setting that makes waiting ranks yield under ch4
			over: map[string]setting{transports.TCP.String(): {
				environ: []string{"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"},
			}},
		},
	}
}

func (m implementation) cc() string     { return "mpicc." + m.name }
func (m implementation) mpirun() string { return "mpirun." + m.name }

// installed reports whether both commands are there.
func (m implementation) installed() bool {
	_, noCC := exec.LookPath(m.cc())
	_, noRun := exec.LookPath(m.mpirun())
	return noCC == nil && noRun == nil
}

// aptLine is what to type to have them.
func aptLine(ms []implementation) string {
	line := "apt-get install"
	for _, m := range ms {
		line += " " + m.packages
	}
	return line
}

// findPeers returns the implementations that are installed: all, or those that were named. It is an error when there is
// none, or when a named one is missing.
func (c *command) findPeers(named []string) ([]implementation, error) {
	var found, missing []implementation
	for _, m := range implementations() {
		switch {
		case len(named) > 0 && !slices.Contains(named, m.name):
		case m.installed():
			found = append(found, m)
		default:
			missing = append(missing, m)
		}
	}
	switch {
	case len(found) == 0 && len(missing) == 0:
		return nil, nil // only rivals were named
	case len(found) == 0:
		return nil, fmt.Errorf("there is no other MPI to compare with; type: %s", aptLine(missing))
	case len(missing) > 0 && len(named) > 0:
		return nil, fmt.Errorf("%s is not installed; type: %s", missing[0].name, aptLine(missing))
	case len(missing) > 0:
		c.say("%s is left out: it is not installed (%s)", missing[0].name, aptLine(missing))
	}
	return found, nil
}

// build compiles the C program into dir and returns the contender, whose launcher gets environ and whose ranks use a
// transport.
func (m implementation) build(ctx context.Context, dir string, environ []string, transport string) (*contender, error) {
	source := filepath.Join(dir, "peer.c")
	if err := os.WriteFile(source, []byte(bench.PeerSource()), 0o600); err != nil {
		return nil, fmt.Errorf("writing the C program: %w", err)
	}
	program := filepath.Join(dir, "peer-"+m.name)
	words := []string{m.cc(), "-O3", "-o", program, source}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", commandLine(words), err, out)
	}
	return &contender{
		name:    m.name,
		version: versionOf(ctx, m.mpirun()),
		built:   commandLine(words),
		environ: slices.Concat(environ, m.environ, m.over[transport].environ),
		words: func(j job) []string {
			words := []string{m.mpirun()}
			if j.ranks <= runtime.NumCPU() {
				words = append(words, m.alone...)
			} else {
				words = append(words, m.crowded...)
			}
			words = append(words, m.over[transport].flags...)
			words = append(words, "-n", strconv.Itoa(j.ranks), program, j.op.Name)
			if j.op.Name == opInit.Name {
				return words
			}
			const window, adapt, warmup = "64", "0", "0" // the defaults of bench.Config
			ms := strconv.FormatFloat(milliseconds(j.time), 'f', -1, 64)
			return append(words, list(j.sizes), ms, window, adapt, warmup)
		},
		point: peerPoint,
	}, nil
}

// versionOf asks a program; the first number with dots that it says is the version.
func versionOf(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	if v := regexp.MustCompile(`\d+\.\d+[.\w]*`).Find(out); err == nil && v != nil {
		return string(v)
	}
	return "of unknown version"
}

// peerPoint reads "point SIZE ITERATIONS VALUE".
func peerPoint(line string) (size int, value float64, err error) {
	words := strings.Fields(line)
	if len(words) != 4 || words[0] != "point" {
		return 0, 0, fmt.Errorf("%q is not: point SIZE ITERATIONS VALUE", line)
	}
	if size, err = strconv.Atoi(words[1]); err == nil {
		value, err = strconv.ParseFloat(words[3], 64)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%q: %w", line, err)
	}
	return size, value, nil
}
