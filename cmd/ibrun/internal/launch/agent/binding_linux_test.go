package agent

import (
	"bytes"
	"errors"
	"io/fs"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
)

// A process that is started between bindThread and unbindThread is bound and has the memory policy. A process that is started
// later is as unbound as the test itself. A policy that the user has set with numactl stays.
func TestBindThread(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the goroutine of the test
	var events bytes.Buffer
	mine := protocol.RankTask{Memory: []int{0}}
	newAgent := func() *agent {
		a := &agent{task: &protocol.Task{Ranks: []protocol.RankTask{mine, {}}}, events: newEvents(&events)}
		if err := a.initBinding(); err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := newAgent()
	mine.PUs = a.allowedPUs[:1]
	child := func(pus []int, policy string) {
		t.Helper()
		out, err := exec.Command("cat", "/proc/self/status", "/proc/self/numa_maps").Output()
		if err != nil || !strings.Contains(string(out), "Cpus_allowed_list:\t"+hw.FormatList(pus)+"\n") {
			t.Errorf("%v, a child is not bound to %v", err, pus)
		}
		if a.setMemory && !strings.Contains(string(out), policy) {
			t.Errorf("a child's memory policy is not %q", policy)
		}
	}
	if err := a.bindThread(&mine); err != nil {
		t.Fatal(err)
	}
	if a.events.Flush(0); !a.setMemory && !strings.Contains(events.String(), "SYS_NICE") {
		t.Errorf("no memory policy, and it was not reported: %s", events.String())
	}
	child(mine.PUs, " prefer")
	if err := a.bindThread(&a.task.Ranks[1]); err != nil { // this rank is not bound
		t.Fatal(err)
	}
	child(a.allowedPUs, " default")
	if err := a.bindThread(&protocol.RankTask{PUs: []int{a.allowedPUs[0], 8000}}); !errors.Is(err, hw.ErrBind) {
		t.Errorf("a rank with a processor that does not exist: %v", err)
	}
	a.unbindThread()
	if now, err := hw.Affinity(); err != nil || !slices.Equal(now, a.allowedPUs) {
		t.Errorf("the agent is bound to %v, %v", now, err)
	}

	if err := hw.PreferMemory([]int{0}); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		t.Logf("memory policies cannot be set here: %v", err)
		return
	} else if err != nil {
		t.Fatal(err)
	}
	if newAgent().setMemory {
		t.Error("the user's own memory policy is overridden")
	}
	if err := hw.PreferMemory(nil); err != nil {
		t.Fatal(err)
	}
	a = newAgent()
	events.Reset()
	if err := errors.Join(a.bindThread(&mine), a.bindThread(&protocol.RankTask{Memory: []int{1000}})); err != nil || a.setMemory {
		t.Errorf("after memory of a node that does not exist: %v, policies are set: %t", err, a.setMemory)
	}
	a.events.Flush(0)
	if set, err := hw.HasMemoryPolicy(); set || err != nil || !strings.Contains(events.String(), "1000") {
		t.Errorf("the next rank has the policy of the previous one: %t, %v; reported was %s", set, err, events.String())
	}
}
