package benchcmd

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/internal/transports"
)

// mpiImplementation is another MPI implementation, with the flags that its documentation recommends.
type mpiImplementation struct {
	name                string // Debian calls its commands mpicc.NAME and mpirun.NAME
	packages            string // of Debian and Ubuntu
	says                string // part of what mpirun --version prints
	environ             []string
	dedicatedFlags      []string // launcher flags if every rank has a core of its own
	oversubscribedFlags []string // launcher flags if there are more ranks than cores
	transports          map[string]transportSettings
}

// transportSettings makes an implementation use one transport and no other.
type transportSettings struct{ environ, flags []string }

// mpiImplementations returns all known MPI implementations.
func mpiImplementations() []mpiImplementation {
	return []mpiImplementation{
		{
			name:           "openmpi",
			packages:       "openmpi-bin libopenmpi-dev",
			says:           "Open MPI",
			environ:        []string{"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1"},
			dedicatedFlags: []string{"--bind-to", "core"},
			// Waiting ranks must yield the core. Open MPI does this itself if it knows of the oversubscription.
			oversubscribedFlags: []string{"--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"},
			transports: map[string]transportSettings{transports.TCP.String(): {
				flags: []string{"--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo"},
			}},
		},
		{
			name:                "mpich",
			packages:            "mpich libmpich-dev",
			says:                "HYDRA",
			dedicatedFlags:      []string{"-bind-to", "core"},
			oversubscribedFlags: []string{"-bind-to", "none"}, // it has no setting that makes waiting ranks yield under ch4
			transports: map[string]transportSettings{
				// UCX opens all network devices in Init, and fails if one disappears meanwhile.
				transports.Shm.String(): {environ: []string{"UCX_NET_DEVICES=lo"}},
				transports.TCP.String(): {environ: []string{"MPIR_CVAR_NOLOCAL=1", "UCX_TLS=tcp,self", "UCX_NET_DEVICES=lo"}},
			},
		},
	}
}

// mpiCommands are the commands of an installed implementation: those in the PATH, or paths.
type mpiCommands struct {
	mpiImplementation
	cc, mpirun string
	version    string
}

// find returns the commands in the folder bin of dir or, if dir is empty, in the PATH: mpicc.NAME and mpirun.NAME or, on systems
// that have only one implementation, or a module for each, mpicc and mpirun.
func (m mpiImplementation) find(ctx context.Context, dir string) (found mpiCommands, ok bool) {
	if dir != "" {
		dir = filepath.Join(dir, "bin") + "/"
	}
	for _, suffix := range []string{"." + m.name, ""} {
		found = mpiCommands{mpiImplementation: m, cc: dir + "mpicc" + suffix, mpirun: dir + "mpirun" + suffix}
		_, noCC := exec.LookPath(found.cc)
		_, noRun := exec.LookPath(found.mpirun)
		if noCC != nil || noRun != nil {
			continue
		}
		out := versionText(ctx, found.mpirun)
		found.version = versionNumber(out)
		if suffix != "" || strings.Contains(out, m.says) {
			return found, true
		}
	}
	return mpiCommands{}, false
}

// installCommand returns the command that installs implementations.
func installCommand(ms []mpiImplementation) string {
	line := "apt-get install"
	for _, m := range ms {
		line += " " + m.packages
	}
	return line
}

// findPeers returns the implementations that are installed, or that are in the folder dir if that is not empty: all, or only the
// named ones. It returns an error if there are none or if a named one is missing.
func (c *command) findPeers(ctx context.Context, dir string, named []string) ([]mpiCommands, error) {
	var found []mpiCommands
	var missing []mpiImplementation
	for _, m := range mpiImplementations() {
		if len(named) > 0 && !slices.Contains(named, m.name) {
			continue
		}
		if commands, ok := m.find(ctx, dir); ok {
			found = append(found, commands)
		} else {
			missing = append(missing, m)
		}
	}
	switch {
	case len(found) == 0 && len(missing) == 0:
		return nil, nil // only reference implementations were named
	case dir != "" && (len(found) == 0 || len(named) > 0 && len(missing) > 0):
		var names []string
		for _, m := range missing {
			names = append(names, m.name)
		}
		return nil, fmt.Errorf("found no %s in %s: want mpicc.NAME and mpirun.NAME, or its mpicc and mpirun",
			strings.Join(names, " or "), filepath.Join(dir, "bin"))
	case dir != "":
		return found, nil
	case len(found) == 0:
		return nil, fmt.Errorf("found no other MPI to compare with; install one: %s", installCommand(missing))
	case len(missing) > 0 && len(named) > 0:
		return nil, fmt.Errorf("%s is not installed; install it: %s", missing[0].name, installCommand(missing))
	case len(missing) > 0:
		c.logf("%s is left out: it is not installed (%s)", missing[0].name, installCommand(missing))
	}
	return found, nil
}

// build compiles the C program at source into dir and returns the subject. Its launcher gets
// environ, and its ranks use the transport.
func (m mpiCommands) build(ctx context.Context, source, dir string, environ []string, transport string) (*subject, error) {
	program := filepath.Join(dir, "peer-"+m.name)
	words := []string{m.cc, "-O3", "-o", program, source}
	out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", quoteCommand(words), err, out)
	}
	return &subject{
		name:    m.name,
		version: m.version,
		built:   quoteCommand(words),
		// By default all launchers of Open MPI on a host use one folder for temporary files, and each removes it when it ends.
		environ: slices.Concat(environ, m.environ, m.transports[transport].environ, []string{"TMPDIR=" + dir}),
		commandLine: func(j job) []string {
			words := []string{m.mpirun}
			if j.ranks <= runtime.NumCPU() {
				words = append(words, m.dedicatedFlags...)
			} else {
				words = append(words, m.oversubscribedFlags...)
			}
			words = append(words, m.transports[transport].flags...)
			words = append(words, "-n", strconv.Itoa(j.ranks), program, j.op.Name)
			if j.op.Name == opInit.Name {
				return words
			}
			const window, adapt, warmup = "64", "0", "0" // the defaults of bench.Config
			ms := strconv.FormatFloat(milliseconds(j.time), 'f', -1, 64)
			return append(words, sizeList(j.sizes), ms, window, adapt, warmup)
		},
		parseLine: parsePeerLine,
	}, nil
}

// versionText returns what a program prints with --version; nothing if it fails.
func versionText(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, program, "--version").CombinedOutput()
	if err != nil {
		return ""
	}
	return string(out)
}

// versionNumber returns the first number with dots of what a program prints with --version.
func versionNumber(text string) string {
	if v := regexp.MustCompile(`\d+\.\d+[.\w]*`).FindString(text); v != "" {
		return v
	}
	return "of unknown version"
}

// parsePeerLine parses "point SIZE ITERATIONS VALUE".
func parsePeerLine(line string) (size int, value float64, err error) {
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
