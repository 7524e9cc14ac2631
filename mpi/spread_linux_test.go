package mpi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/needtest"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

const (
	// unspread are the tests that only run in one program: they count allocations of ranks that share a heap, synchronize ranks
	// outside of MPI, start their own processes, choose their own transport, or need a device. Examples compare all output.
	unspread = `^Example|^Test(Allocs|AttrAllocs|AttrLocal|HWResourceRanks|CommonClock|IO|Launched|TimeNamespaces|ProcessorName|` +
		`BufferedSteady|FreedMemory|FreedRequestsOver|IdupBesideAllreduce|WaitsOfProcesses|Processes|LeftProcesses|Stopped|` +
		`Flood|Report|Thresholds|Live|Spread|TwoLevel|DeathOnTwoLevels|DeathInTwoLevelSteps|LeavesTwoLevels)`
	// basics are fast tests of all parts, without crowds. IBRUN_SOAK=1 runs all tests.
	crowds = `^TestCollectiveSizes$/./^[1245678]$`
	basics = `^Test(Sends|Truncate|Order|Sendrecv|Large|Probe|Persistent|CollectiveSizes|Split|DupOrders|Freed|Machines)$`
)

// spreadArgs returns the arguments of a test program that is one of several.
func spreadArgs() []string {
	args := []string{"-test.count=1", "-test.timeout=30m", "-test.v"}
	if soaktest.On() {
		return append(args, "-test.skip="+unspread)
	}
	return append(args, "-test.run="+basics, "-test.skip="+unspread+"|"+crowds)
}

// spread runs the test programs that command creates. It fails the test unless all succeed and have run tests
// together.
func spread(t *testing.T, network, addr string, command func(k int, env, args []string) *exec.Cmd) {
	t.Helper()
	rendezvous, err := mpitest.NewRendezvous(network, addr, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer rendezvous.Close()
	var out [2]bytes.Buffer
	ends := make(chan int, len(out))
	errs := make([]error, len(out))
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute) // a watchdog
	defer cancel()
	for k := range out {
		c := command(k, []string{rendezvous.Environ(k)}, spreadArgs())
		c.Stdout, c.Stderr, c.WaitDelay = &out[k], &out[k], time.Minute
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		stop := context.AfterFunc(ctx, func() { _ = c.Process.Kill() }) // it may have ended
		go func() {
			errs[k] = c.Wait()
			stop()
			ends <- k
		}()
	}
	for range out {
		if k := <-ends; errs[k] != nil {
			_ = rendezvous.Close() // so the other one does not wait for it
		}
	}
	for k, err := range errs {
		passed := strings.Count(out[k].String(), "--- PASS: ")
		if err != nil || passed < 10 {
			t.Errorf("program %d: %v, %d passed\n%s", k, err, passed, &out[k])
		}
		t.Logf("program %d: %d tests passed", k, passed)
	}
}

// TestSpread runs the tests of this package with the ranks of each world in two network namespaces, connected by TCP.
func TestSpread(t *testing.T) { spreadOverTCP(t) }

// TestSpreadShared does the same with ranks of a namespace that share memory.
func TestSpreadShared(t *testing.T) { spreadOverTCP(t, "IBRUN_TRANSPORT=shm,tcp") }

// TestSpreadEncrypted does the same with encryption.
func TestSpreadEncrypted(t *testing.T) { spreadOverTCP(t, "IBRUN_ENCRYPT=1") }

func spreadOverTCP(t *testing.T, variables ...string) {
	t.Helper()
	needtest.Networks(t)
	names := namespaces(t)
	spread(t, "unix", filepath.Join(t.TempDir(), "rendezvous"), func(k int, env, args []string) *exec.Cmd {
		c := exec.Command("ip", append([]string{"netns", "exec", names[k], executable(t)}, args...)...)
		c.Env = append(append(os.Environ(), append(env, "IBRUN_TRANSPORT=tcp", "IBRUN_TCP_INTERFACES=")...), variables...)
		return c
	})
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// namespaces creates two network namespaces with a link between them.
func namespaces(t *testing.T) (names [2]string) {
	t.Helper()
	ip := func(words string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(words)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", words, err, out)
		}
	}
	id := strings.ToLower(rand.Text()[:6])
	for k, end := range []string{"a", "b"} {
		names[k] = "ibm" + id + end
		ip("netns add " + names[k])
		t.Cleanup(func() { ip("netns del " + names[k]) })
	}
	ip(fmt.Sprintf("link add net netns %s type veth peer name net netns %s", names[0], names[1]))
	for k, name := range names {
		ip(fmt.Sprintf("-n %s addr add 10.77.0.%d/24 dev net", name, k+1))
		ip(fmt.Sprintf("-n %s link set net up", name))
		ip(fmt.Sprintf("-n %s link set lo up", name))
	}
	return names
}
