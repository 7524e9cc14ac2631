package mpi_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// prepare prepares the system process of a rank for its test, before it becomes a rank.
func prepare() error {
	if slices.Contains(strings.Split(os.Getenv("MPI_TEST_NO_FILES"), ","), os.Getenv("PMI_RANK")) {
		// No files can be created there.
		return errors.Join(os.Setenv("TMPDIR", "/proc"), os.Chdir("/proc"))
	}
	return nil
}

// environment prints what a rank finds.
func environment(p *mpi.Process) error {
	got, err := values(p)
	if err != nil {
		return err
	}
	told := func(key int) string {
		if v, ok := got[key]; ok {
			return strconv.Itoa(v)
		}
		return "none"
	}
	fmt.Printf("rank %d: io %s, app %s, universe %s\n", p.World().Rank(), told(502), told(505), told(507))
	return untouchable(p)
}

// TestIO: every rank tests its own I/O, and all know the result of all.
func TestIO(t *testing.T) {
	const any, none = mpi.AnySource, mpi.ProcNull
	for id, c := range map[string]struct {
		unable string
		want   [3]int
	}{
		"S0-23": {"", [3]int{any, any, any}},
		"S0-24": {"1", [3]int{0, 0, 2}},
		"S0-25": {"0,1", [3]int{2, 2, 2}},
		"S0-26": {"0,1,2", [3]int{none, none, none}},
		"S1-12": {"0,2", [3]int{1, 1, 1}},
		"S0-27": {"0", [3]int{1, 1, 2}},
	} {
		t.Run(id, func(t *testing.T) {
			t.Setenv("MPI_TEST_NO_FILES", c.unable)
			end, exits, output := launch(t, 3, "environment", nil)
			for rank, io := range c.want {
				if line := fmt.Sprintf("rank %d: io %d,", rank, io); exits[rank] != 0 || !strings.Contains(output, line) {
					t.Errorf("want %q, got %q, exit codes %v, end %q", line, output, exits, end)
				}
			}
		})
	}
}

// TestLaunched: what the launcher knows of the job.
func TestLaunched(t *testing.T) {
	end, exits, output := launchJob(t, pmi.Job{Size: 3, UniverseSize: 12, AppNums: []int{0, 1, 1}}, 1, "environment",
		func(int, *exec.Cmd) {})
	told := func(what string, lines ...string) func(t *testing.T) {
		return func(t *testing.T) {
			for _, line := range lines {
				if end != "" || slices.Max(exits) != 0 || !strings.Contains(output, line) {
					t.Errorf("%s: want %q, got %q, exit codes %v, end %q", what, line, output, exits, end)
				}
			}
		}
	}
	t.Run("S0-K2", told("universe", "universe 12\n"))
	t.Run("S0-K3", told("programs", "rank 0: io -1, app 0,", "rank 1: io -1, app 1,", "rank 2: io -1, app 1,"))
}

// wrapCommand makes a command run under another program.
func wrapCommand(t *testing.T, c *exec.Cmd, words ...string) {
	c.Path, c.Args = words[0], append(words, executable(t))
}

// order compares Wtime with the time that both nodes know: the second node's clock is exactly an hour ahead.
func order(p *mpi.Process) error {
	w := p.World()
	ahead := int64(0)
	if w.Rank() >= w.Size()/2 {
		ahead = 3600e9
	}
	worst := 0.0
	look := func() error {
		var before, after unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before)
		now := p.Wtime()
		err = errors.Join(err, unix.ClockGettime(unix.CLOCK_MONOTONIC, &after))
		worst = max(worst, float64(before.Nano()-ahead)/1e9-now, now-float64(after.Nano()-ahead)/1e9)
		return err
	}
	messages := soaktest.Choose(1_000_000, 200)
	errs := []error{crossed(p), look()}
	closest, rounds := 1.0, 10
	for range rounds {
		c := closest
		one, err := oneClock(p)
		if err != nil {
			return err
		}
		if one {
			if c, err = inOrder(p, messages/rounds); err != nil {
				return err // other ranks may still be in the loop
			}
		}
		closest = min(closest, c)
		errs = append(errs, err, look())
	}
	// No measurement is better than half a round trip; that is some microseconds, unless the machine is busy.
	errs = append(errs, check(worst < 5e-3, "rank %d is off by %v s", w.Rank(), worst),
		check((p.WtimeError() == 0) == (ahead == 0), "rank %d has an error of %v", w.Rank(), p.WtimeError()))
	one, err := oneClock(p)
	fmt.Printf("rank %d: global %v, at most %v off, in fact %.0f ns, the fastest message took %.0f ns\n",
		w.Rank(), one, p.WtimeError(), worst*1e9, closest*1e9)
	errs = append(errs, err)
	return errors.Join(errs...)
}

// renamed checks that the machine has one name although each rank has its own host name. A rank whose kernel differs
// has its own name, even if all have the same host name then.
func renamed(p *mpi.Process) error {
	before, err := p.ProcessorName()
	host, err2 := os.Hostname()
	errs := []error{err, err2, named(p), check(strings.HasPrefix(before, "host0-"), "the name is %q", before)}
	// One rank changes its own host name, which the others do not see.
	if p.World().Rank() == 1 {
		errs = append(errs, unix.Sethostname([]byte("changed")))
	}
	now, err3 := p.ProcessorName()
	errs = append(errs, err3, check(now == before, "%q, and %q after one rank has changed its host name", before, now), named(p))
	// Replacing this file simulates that the rank moves to another machine.
	const file = "/proc/sys/kernel/random/boot_id"
	boot := fmt.Sprintf("%08x", 0x0badcaf0+p.World().Rank())
	other := filepath.Join(os.TempDir(), "boot-"+boot)
	errs = append(errs, os.WriteFile(other, []byte(boot+"-0000-0000-0000-000000000000\n"), 0o600),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount(other, file, "", unix.MS_BIND, ""),
		unix.Sethostname([]byte("twin")))
	moved, err := p.ProcessorName()
	errs = append(errs, err, check(moved == "twin-"+boot, "%q, and then %q", before, moved), alone(p, moved),
		unix.Unmount(file, 0), unix.Sethostname([]byte(host)))
	after, err := p.ProcessorName()
	return errors.Join(append(errs, err, check(after == before, "%q, back again %q", before, after))...)
}

// alone checks that no two ranks have the same name.
func alone(p *mpi.Process, name string) error {
	mine := make([]byte, mpi.MaxProcessorName)
	copy(mine, name)
	all := make([]byte, len(mine)*p.World().Size())
	errs := []error{mpi.Allgather(p.World(), all, mine)}
	seen := map[string]bool{}
	for other := range slices.Chunk(all, len(mine)) {
		errs = append(errs, check(!seen[string(other)], "two ranks are on %s", other))
		seen[string(other)] = true
	}
	return errors.Join(errs...)
}

// TestProcessorName: the name is the same for all processes of a kernel, and changes when a process moves.
func TestProcessorName(t *testing.T) {
	unshare := needtest.Namespaces(t, "--uts", "--mount")
	shell := needtest.Program(t, "sh", "dash")
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("IBRUN_TCP_INTERFACES", "lo")
	t.Attr("namespaces", "uts, mount")
	t.Attr("changes", "the machine")
	end, exits, output := launchJob(t, pmi.Job{Size: 2}, 2, "uts", func(rank int, c *exec.Cmd) {
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
		wrapCommand(t, c, unshare, "--uts", shell, "-c", fmt.Sprintf(`hostname host%d && exec "$0"`, rank))
	})
	for _, id := range []string{"S0-40", "S0-41", "S1-17"} {
		t.Run(id, func(t *testing.T) {
			if end != "" || slices.Max(exits) != 0 {
				t.Errorf("ended with %q, codes %v\n%s", end, exits, output)
			}
		})
	}
}
