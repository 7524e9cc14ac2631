//go:build linux && !static && (amd64 || arm64)

package libibverbs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"

	"github.com/ibrun/ibrun/internal/needtest"
)

// stackSource has functions that use the stack.
var stackSource = filepath.Join("testdata", "stack.c")

// compiled returns the address of a function of stackSource.
func compiled(t *testing.T, name string) uintptr {
	t.Helper()
	return symbol(t, compile(t, stackSource), name)
}

// symbol returns the address of a function of a library.
func symbol(t *testing.T, lib, name string) uintptr {
	t.Helper()
	handle, err := purego.Dlopen(lib, purego.RTLD_NOW)
	if err != nil {
		t.Fatal(err)
	}
	fn, err := purego.Dlsym(handle, name)
	if err != nil {
		t.Fatal(err)
	}
	return fn
}

// compile makes a library of a source file and returns its path.
func compile(t *testing.T, source string) string {
	t.Helper()
	gcc := needtest.Program(t, "gcc", "gcc libc6-dev")
	lib := filepath.Join(t.TempDir(), "library.so")
	out, err := exec.Command(gcc, "-O1", "-shared", "-fPIC", "-o", lib, source).CombinedOutput()
	if err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return lib
}

// TestDeepStack calls a function that needs more stack than a goroutine has, from goroutines whose stacks grow and move, while
// the garbage collector runs, and signals for the profiler and for preemption arrive at every thread.
func TestDeepStack(t *testing.T) {
	const calls, goroutines, kib = 50, 8, 200
	use, s := compiled(t, "use_stack"), newStacks()
	runtime.SetCPUProfileRate(1000)
	defer runtime.SetCPUProfileRate(0)
	stop := make(chan struct{})
	var load, callers sync.WaitGroup
	load.Go(func() { repeat(stop, runtime.GC) })
	load.Go(func() { repeat(stop, func() { signalThreads(t, unix.SIGPROF, unix.SIGURG) }) })
	for range goroutines {
		callers.Go(func() {
			for i := range calls {
				callAtDepth(2*i, func() {
					if n := s.call(use, kib, 0, 0); n != kib {
						t.Errorf("%d of %d KiB of the stack have kept their contents", n, kib)
					}
				})
			}
		})
	}
	callers.Wait()
	close(stop)
	load.Wait()
}

// repeat calls f until stop is closed.
func repeat(stop <-chan struct{}, f func()) {
	for {
		select {
		case <-stop:
			return
		default:
			f()
		}
	}
}

// signalThreads sends signals to all threads of this process.
func signalThreads(t *testing.T, signals ...syscall.Signal) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Error(err)
	}
	for _, e := range threads {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			t.Error(err)
		}
		for _, s := range signals {
			if err := unix.Tgkill(os.Getpid(), id, s); err != nil && err != unix.ESRCH {
				t.Error(err)
			}
		}
	}
}

// TestStackOfItsOwn checks that C does not run on the stack of the goroutine, and that there are no more stacks than processors.
// TestDeepStack shows that calls at the same time do not share a stack.
func TestStackOfItsOwn(t *testing.T) {
	const calls = 50_000 // by each goroutine, so that they run at the same time
	where, s := compiled(t, "stack_address"), newStacks()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	var mu sync.Mutex
	stacks := map[uintptr]bool{}
	var callers sync.WaitGroup
	for range 3 {
		callers.Go(func() {
			for range calls {
				var local byte
				at := s.call(where, 0, 0, 0)
				mu.Lock()
				stacks[at/stackBytes] = true
				mu.Unlock()
				if goes := address(&local); at > goes-1<<20 && at < goes+1<<20 {
					t.Errorf("C runs at %#x, the goroutine at %#x", at, goes)
				}
			}
		})
	}
	callers.Wait()
	if len(stacks) > 3 {
		t.Errorf("C ran on %d stacks, want at most one for each of 3 processors", len(stacks))
	}
}

// TestNoStack checks that calls work if there is no memory for a stack, and that a stack is used as soon as there is.
func TestNoStack(t *testing.T) {
	labs, s := function(t, "labs"), newStacks()
	tried := 0
	s.newStack = func() (uintptr, error) {
		if tried++; tried < 3 {
			return 0, unix.ENOMEM
		}
		return mapStack()
	}
	for range 100 {
		if got := s.call(labs, ^uintptr(6), 0, 0); got != 7 { // of -7
			t.Fatalf("labs(-7) is %d", got)
		}
	}
	if tried < 3 || tried > 2+runtime.GOMAXPROCS(0) {
		t.Errorf("tried to map a stack %d times, want 2 and once for each processor", tried)
	}
}

// TestBrokenC calls functions that fail in a process of its own. The process must end: no deferred function may catch the fault
// and go on with what C has left.
func TestBrokenC(t *testing.T) {
	const variable = "TEST_BROKEN_C" // the function to call, and the library that has it
	if call, lib, found := strings.Cut(os.Getenv(variable), " "); found {
		if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil { // no core file
			t.Fatal(err)
		}
		defer func() {
			recover()
			os.Stdout.WriteString("continued")
		}()
		newStacks().call(symbol(t, lib, call), 1<<20, 0, 0) // use_stack would need 1 GiB
		os.Stdout.WriteString("continued")
		return
	}
	lib := compile(t, stackSource)
	for call, want := range map[string]string{
		"use_stack": "segmentation fault",       // of the kernel: there is no stack left for the runtime's message
		"read_null": "unexpected signal during", // of the runtime
	} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestBrokenC$", "-test.timeout=2m")
		cmd.Env = append(os.Environ(), variable+"="+call+" "+lib)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || !strings.Contains(err.Error()+string(out), want) || strings.Contains(string(out), "continued") {
			t.Errorf("%s: %v, want %q\n%s", call, err, want, out)
		}
	}
}
