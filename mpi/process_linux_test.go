package mpi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/pmi"
	"github.com/ibrun/ibrun/internal/ranklink"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
)

// programs are what ranks do that are processes of their own.
var programs = map[string]func(p *mpi.Process) error{
	"ring":     ring,
	"types":    everyType,
	"sizes":    everySize,
	"large":    large,
	"bindings": bindings,
	"flood":    flood,
	"closed":   func(p *mpi.Process) error { return errors.Join(forbidMemoryAccess(), large(p)) },
	"half closed": func(p *mpi.Process) error {
		if p.World().Rank()%2 == 1 {
			return errors.Join(forbidMemoryAccess(), large(p))
		}
		return large(p)
	},
	"environment": environment,
	"order":       order,
	"uts":         renamed,
	"abort": func(p *mpi.Process) error {
		if p.World().Rank() == p.World().Size()-1 {
			return p.Abort(7)
		}
		return p.World().Barrier()
	},
	"abort with 0":   func(p *mpi.Process) error { return p.Abort(0) },
	"abort with 256": func(p *mpi.Process) error { return p.Abort(256) },
	"stopped":        stopped,
	"idups":          idups,
	"waits":          manyWaits,
	"communicators":  communicators,
	"exit early": func(p *mpi.Process) error {
		return exitWithout(endWithout(p, func() error { return nil }))
	},
	"killed early": func(p *mpi.Process) error {
		return exitWithout(endWithout(p, func() error { return syscall.Kill(os.Getpid(), syscall.SIGKILL) }))
	},
	"killed copying":           func(p *mpi.Process) error { return exitWithout(killedCopying(p)) },
	"killed copying at once":   func(p *mpi.Process) error { return exitWithout(killedCopyingAtOnce(p)) },
	"killed while others wait": func(p *mpi.Process) error { return exitWithout(killedWhileOthersWait(p)) },
	"finalize early":           func(p *mpi.Process) error { return finalizeEarly(p, !soaktest.On()) },
	"leave": func(p *mpi.Process) error {
		if p.World().Rank() == 1 {
			os.Exit(0)
		}
		_, err := mpi.Recv(p.World(), []int{0}, 1, 0)
		return err
	},
}

// TestMain lets the test binary also be one rank of a job.
func TestMain(m *testing.M) {
	if os.Getenv("IBRUN_CHECK") == "" {
		os.Setenv("IBRUN_CHECK", "0") // most tests are about the paths that programs take without checks
	}
	name := os.Getenv("MPI_TEST_PROGRAM")
	if name == "" {
		os.Exit(m.Run())
	}
	go func() { // the other end of stdin closes with the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	run := func() error { return rankMain(programs[name]) }
	if program := joined[name]; program != nil {
		run = func() error { return joinMain(program) }
	}
	if err := errors.Join(prepare(), run()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func rankMain(program func(p *mpi.Process) error) error {
	p, err := mpi.Init(context.Background(), nil)
	if err != nil {
		return err
	}
	if err := program(p); err != nil {
		return fmt.Errorf("rank %d: %w", p.World().Rank(), err)
	}
	return p.Finalize()
}

// ring hands a message round that every rank adds to.
func ring(p *mpi.Process) error {
	w := p.World()
	n, me := w.Size(), w.Rank()
	for lap := range 50 {
		x := []int{lap}
		if me == 0 {
			if err := mpi.Send(w, x, 1%n, 0); err != nil {
				return err
			}
		}
		if _, err := mpi.Recv(w, x, (me+n-1)%n, 0); err != nil {
			return err
		}
		if x[0] += me; me != 0 {
			if err := mpi.Send(w, x, (me+1)%n, 0); err != nil {
				return err
			}
		} else if x[0] != lap+n*(n-1)/2 {
			return fmt.Errorf("lap %d: %d", lap, x[0])
		}
	}
	return nil
}

// forbidMemoryAccess prevents other processes of the same user from reading this one's memory.
func forbidMemoryAccess() error {
	return os.NewSyscallError("prctl", unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0))
}

// large sends messages that are too long for the shared ring between neighbours, in both directions at the same time and in one.
func large(p *mpi.Process) error {
	w := p.World()
	me, with := w.Rank(), w.Rank()^1
	for _, size := range []int{5000, 200_000, 3_000_001} {
		out, in, right := make([]byte, size), make([]byte, size), make([]byte, size)
		for i := range out {
			out[i], right[i] = byte(i*7+me+i>>9), byte(i*7+with+i>>9)
		}
		if _, err := mpi.Sendrecv(w, out, with, 1, in, with, 1); err != nil {
			return err
		}
		errs := []error{want("both ways", nil, in, right)}
		for _, from := range []int{0, 1} {
			clear(in)
			var err error
			if me%2 == from {
				err = mpi.Send(w, out, with, 2)
			} else if _, err = mpi.Recv(w, in, with, 2); err == nil {
				err = want("one way", nil, in, right)
			}
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
	}
	return errors.Join(longBlocks(w), longImmediates(w))
}

// longBlocks makes collectives that copy long blocks directly from one process to another, if that is allowed.
func longBlocks(c *mpi.Comm) error {
	const block, root = 250_000, 1
	n, me := c.Size(), c.Rank()
	parts := func(to, from int) []byte {
		b := make([]byte, block)
		for i := range b {
			b[i] = byte(i*7 + 31*to + 3*from + i>>9)
		}
		return b
	}
	var src, right []byte
	for r := range n {
		src, right = append(src, parts(r, me)...), append(right, parts(me, r)...)
	}
	dst, mine := make([]byte, n*block), make([]byte, block)
	errs := []error{want("Alltoall", mpi.Alltoall(c, dst, src), dst, right)}
	errs = append(errs, want("Scatter", mpi.Scatter(c, mine, src, root), mine, parts(me, root)))
	return errors.Join(append(errs, want("Alltoall in place", mpi.Alltoall(c, src, src), src, right))...)
}

// killSelf kills the last process after up to that many milliseconds. It is called at all ranks. None is killed before all have
// passed Init, and the others may learn of it in the Barrier that ensures that.
func killSelf(w *mpi.Comm, most int) error {
	err := w.Barrier()
	if err != nil {
		return err
	}
	if w.Rank() == w.Size()-1 {
		seed, err := soaktest.ProgramSeed()
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "seed", seed)
		random := mathrand.New(mathrand.NewPCG(seed, uint64(w.Size())))
		time.AfterFunc(time.Duration(random.IntN(most))*time.Millisecond, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	return nil
}

// killedCopying kills the last process at some time while all copy long blocks directly from each other.
func killedCopying(p *mpi.Process) error {
	w := p.World()
	err := killSelf(w, 20)
	x, y := make([]byte, w.Size()*200_000), make([]byte, w.Size()*200_000)
	for err == nil {
		err = mpi.Alltoall(w, x, y)
	}
	return ofClass(err, mpi.ErrProcFailed)
}

// killedWhileOthersWait kills the last process at some time while several short immediate collectives are in progress. That
// process comes late to some of them, so that the others sleep.
func killedWhileOthersWait(p *mpi.Process) error {
	w := p.World()
	last := w.Size() - 1
	err := killSelf(w, 60) // the memory is shared from now on
	all, x := mathrand.New(mathrand.NewPCG(1, 2)), make([][]int, 12)
	for i := range x {
		x[i] = make([]int, 2*w.Size())
	}
	for err == nil {
		reqs := make([]mpi.Request, len(x))
		if late := all.IntN(4) == 0; late && w.Rank() == last {
			time.Sleep(5 * time.Millisecond)
		}
		for i := range reqs {
			var err1 error
			switch root := all.IntN(w.Size()); all.IntN(4) {
			case 0:
				reqs[i], err1 = mpi.Ibcast(w, x[i], root)
			case 1:
				reqs[i], err1 = mpi.Ireduce(w, x[i], x[i], mpi.Sum, root)
			case 2:
				reqs[i], err1 = mpi.Iallreduce(w, x[i], x[i], mpi.Sum)
			default:
				reqs[i], err1 = w.Ibarrier()
			}
			err = errors.Join(err, err1)
		}
		err = errors.Join(err, mpi.Waitall(reqs, nil))
	}
	if !errors.Is(err, mpi.ErrProcFailed) { // its class is that of Waitall
		return err
	}
	return nil
}

// stopped stops the other process while messages in both directions are in flight: nothing is lost, and no process is
// considered lost.
func stopped(p *mpi.Process) error {
	w := p.World()
	with := 1 - w.Rank()
	lengths := []int{1, 1000, 100_000, 5_000_000}
	var reqs []mpi.Request
	ins := make([][]byte, len(lengths))
	pid := []int{os.Getpid()}
	if w.Rank() == 1 {
		if err := mpi.Send(w, pid, 0, 99); err != nil {
			return err
		}
	} else if _, err := mpi.Recv(w, pid, 1, 99); err != nil {
		return err
	} else if err := syscall.Kill(pid[0], syscall.SIGSTOP); err != nil {
		return err
	}
	for i, n := range lengths {
		ins[i] = make([]byte, n)
		out := bytes.Repeat([]byte{byte(i), byte(w.Rank())}, n)[:n]
		r, err1 := mpi.Irecv(w, ins[i], with, i)
		s, err2 := mpi.Isend(w, out, with, i)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		reqs = append(reqs, r, s)
	}
	if w.Rank() == 0 {
		turns := soaktest.Choose(10_000, 300)
		for range turns {
			time.Sleep(time.Millisecond)
			if _, _, _, err := mpi.Testany(reqs); err != nil {
				return err
			}
		}
		if err := syscall.Kill(pid[0], syscall.SIGCONT); err != nil {
			return err
		}
	}
	err := mpi.Waitall(reqs, nil)
	for i, n := range lengths {
		if want := bytes.Repeat([]byte{byte(i), byte(with)}, n)[:n]; err == nil && !bytes.Equal(ins[i], want) {
			err = fmt.Errorf("%d bytes arrived wrong", n)
		}
	}
	return err
}

// exitWithout exits without Finalize, unless err is set.
func exitWithout(err error) error {
	if err == nil {
		os.Exit(0)
	}
	return err
}

// testLauncher implements the minimum of a launcher.
type testLauncher struct {
	ranks  []*exec.Cmd
	links  []*ranklink.Link
	silent bool // it does not report which ranks have left, like other launchers, nor end the job when a rank exits

	mu     sync.Mutex
	output bytes.Buffer
	end    string // the event that ended the job early: an Abort, otherwise the first one
}

// Write takes what ranks write.
func (m *testLauncher) Write(b []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.output.Write(b)
}

// announce reports to the others that a rank has left.
func (m *testLauncher) announce(rank int) {
	for other, link := range m.links {
		if other != rank && !m.silent {
			_ = link.Send(ranklink.KindLeft, ranklink.Left{Ranks: []int{rank}}) // the other may have exited
		}
	}
}

// abort ends the job because a rank has called Abort. The others notice that it is gone, and may be reported first.
func (m *testLauncher) abort(why string) {
	m.stop(why)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end = why
}

// stop ends the job.
func (m *testLauncher) stop(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.end != "" {
		return
	}
	m.end = why
	for _, c := range m.ranks {
		_ = c.Process.Kill() // one that has ended needs none
	}
}

// launch runs a program as n processes and returns the event that ended the job, "" if all ranks finalized, and
// their exit codes with what they wrote.
func launch(t *testing.T, n int, program string, as *syscall.Credential) (end string, exits []int, output string) {
	t.Helper()
	return launchJob(t, pmi.Job{Size: n}, 1, program, func(_ int, c *exec.Cmd) { c.SysProcAttr.Credential = as })
}

// launchJob is launch for a job with this hello for the ranks, distributed over this number of nodes. dress changes
// the command of a rank.
func launchJob(
	t *testing.T, about pmi.Job, nodes int, program string, dress func(rank int, c *exec.Cmd),
) (end string, exits []int, output string) {
	t.Helper()
	m := &testLauncher{silent: unheard[program]}
	n, each := about.Size, about.Size/nodes
	t.Attr("world", fmt.Sprintf("%d processes on %d nodes", n, nodes))
	about.KVSName, about.Mapping = "test", fmt.Sprintf("(vector,(0,%d,%d))", nodes, each)
	about.Events = pmi.Events{
		Abort:    func(rank, code int, _ string) { m.abort(fmt.Sprintf("rank %d aborted with %d", rank, code)) },
		Finalize: func(rank int) { m.announce(rank) },
		Lost: func(rank int, inited bool) {
			if !m.silent {
				m.stop(fmt.Sprintf("rank %d left, inited %v", rank, inited))
			}
		},
	}
	server, err := pmi.NewServer(about)
	if err != nil {
		t.Fatal(err)
	}
	hello := ranklink.RankInfo{JobID: "test", Size: n, Nodes: nodes, NodeName: "here", AgentPID: os.Getpid()}
	rand.Read(hello.Secret[:])
	var ends []*os.File
	for i := range n {
		if i%each == 0 {
			hello.Node, hello.NodeRanks = i/each, nil
			for r := range each {
				hello.NodeRanks = append(hello.NodeRanks, i+r)
			}
		}
		hello.Rank, hello.LocalRank = i, i%each
		ends = append(ends, m.start(t, hello, program, dress))
	}
	var served sync.WaitGroup
	for i, conn := range ends {
		served.Go(func() {
			if err := server.Serve(i, conn); err != nil {
				m.stop(err.Error())
			}
		})
	}
	limit := soaktest.Choose(20*time.Minute, 5*time.Minute)
	defer time.AfterFunc(limit, func() { m.stop("a hang") }).Stop()
	for _, c := range m.ranks {
		if err := c.Wait(); c.ProcessState == nil {
			t.Fatal(err)
		}
		exits = append(exits, c.ProcessState.ExitCode())
	}
	served.Wait()
	m.mu.Lock() // the function of the timer may be running
	defer m.mu.Unlock()
	return m.end, exits, m.output.String()
}

// start starts one rank and returns the launcher's end of its PMI connection.
func (m *testLauncher) start(t *testing.T, hello ranklink.RankInfo, program string, dress func(rank int, c *exec.Cmd)) *os.File {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "pmi"), os.NewFile(uintptr(fds[1]), "pmi of rank")
	link, rankEnd, err := ranklink.Pair()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { link.Close() })
	m.links = append(m.links, link)
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), "MPI_TEST_PROGRAM="+program, "PMI_FD=3", "IBRUN_FD=4", "GOMAXPROCS=1",
		fmt.Sprint("PMI_RANK=", hello.Rank), fmt.Sprint("PMI_SIZE=", hello.Size))
	c.ExtraFiles = []*os.File{theirs, rankEnd}
	c.Stdout, c.Stderr = m, m
	c.SysProcAttr = &syscall.SysProcAttr{}
	dress(hello.Rank, c)
	if _, err := c.StdinPipe(); err != nil { // held open by c
		t.Fatal(err)
	}
	if err := errors.Join(c.Start(), theirs.Close(), rankEnd.Close(), link.Send(ranklink.KindRankInfo, hello)); err != nil {
		t.Fatal(err)
	}
	m.ranks = append(m.ranks, c)
	return ours
}

// names lists the files in the places where shared memory could remain; tmp is the directory of the ranks.
func names(t *testing.T, tmp string) string {
	t.Helper()
	memory, err := filepath.Glob("/dev/shm/*ibrun*")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(tmp + "/*")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(memory, files...), " ")
}

// TestProcesses runs programs between real processes. With IBRUN_SOAK=1 it runs more numbers of them.
func TestProcesses(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	before := names(t, tmp)
	for _, x := range []struct {
		program string
		ranks   []int
		end     string // a pattern, with %d for the last rank
	}{
		{"ring", soaktest.Choose([]int{1, 2, 4, 8}, []int{1, 8}), ""},
		{"types", soaktest.Choose([]int{3, 4}, []int{3}), ""},
		{"communicators", []int{2}, ""},
		{"sizes", soaktest.Choose([]int{2, 3, 4, 8}, []int{3, 4}), ""},
		{"large", soaktest.Choose([]int{2, 4, 6}, []int{4}), ""},
		{"abort", soaktest.Choose([]int{2, 4}, []int{4}), "rank %d aborted with 7"},
		// The other ranks end immediately after rank 1, and any of the exits may be reported first.
		{"leave", soaktest.Choose([]int{2, 4}, []int{4}), "rank [0-3] left, inited true"},
	} {
		for _, n := range x.ranks {
			t.Run(fmt.Sprint(x.program, " ", n), func(t *testing.T) {
				wanted := strings.ReplaceAll(x.end, "%d", fmt.Sprint(n-1))
				end, exits, output := launch(t, n, x.program, nil)
				if !regexp.MustCompile("^" + wanted + "$").MatchString(end) {
					t.Errorf("ended with %q, want %q", end, wanted)
				}
				for rank, code := range exits {
					if wanted == "" && code != 0 {
						t.Errorf("rank %d ended with %d", rank, code)
					}
				}
				if t.Failed() {
					t.Log(output)
				}
			})
		}
	}
	if after := names(t, tmp); after != before {
		t.Errorf("names left behind: %q, before %q", after, before)
	}
}

// TestStopped stops one of two processes, over each transport that joins them here.
func TestStopped(t *testing.T) {
	for _, transport := range []string{"tcp", "shm"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			dress := func(_ int, c *exec.Cmd) {
				c.Env = append(c.Env, "IBRUN_TRANSPORT="+transport, "IBRUN_TCP_INTERFACES=lo")
			}
			if end, exits, output := launchJob(t, pmi.Job{Size: 2}, 1, "stopped", dress); end != "" || exits[0]+exits[1] != 0 {
				t.Errorf("ended with %q, codes %v\n%s", end, exits, output)
			}
		})
	}
}

// TestProcessesApart runs ranks that the kernel does not let read each other's memory: large messages arrive
// nevertheless. Each talks to a neighbor, and in collectives to ranks of another pair. With IBRUN_SOAK=1 there are three pairs.
func TestProcessesApart(t *testing.T) {
	var as *syscall.Credential
	if os.Getuid() == 0 { // root may read everything
		as = &syscall.Credential{Uid: 65534, Gid: 65534}
	}
	for _, program := range []string{"closed", "half closed", "large"} {
		t.Run(program, func(t *testing.T) {
			n := soaktest.Choose(6, 4)
			if end, exits, output := launch(t, n, program, as); end != "" || !slices.Equal(exits, make([]int, n)) {
				t.Errorf("ended with %q, codes %v\n%s", end, exits, output)
			}
		})
	}
}

// TestAbortAlone: an aborted world of one rank has failed, for every code.
func TestAbortAlone(t *testing.T) {
	for code, want := range map[int]int{0: 1, 256: 1, 7: 7} {
		name := fmt.Sprintf("abort with %d", code)
		if code == 7 {
			name = "abort"
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "MPI_TEST_PROGRAM="+name)
		stdin, err := cmd.StdinPipe() // open while the program runs
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		var said strings.Builder
		cmd.Stderr = &said
		err = cmd.Run()
		if cmd.ProcessState.ExitCode() != want || !strings.Contains(said.String(), fmt.Sprintf("called Abort(%d)", code)) {
			t.Errorf("Abort(%d): %v, want exit code %d; it said %q", code, err, want, said.String())
		}
	}
}
