package agent

import (
	"bytes"
	"encoding/json"
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

// A process that is started between lend and takeBack is bound, and has the memory policy; one that is started later is as free
// as this one. What the user has set with numactl stays.
func TestLend(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the thread ends with the test's goroutine
	var said bytes.Buffer
	mine := protocol.RankTask{Memory: []int{0}}
	newAgent := func() *agent {
		a := &agent{task: &protocol.Task{Ranks: []protocol.RankTask{mine, {}}}, events: json.NewEncoder(&said)}
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
	if !a.setMemory && !strings.Contains(said.String(), "SYS_NICE") {
		t.Errorf("no memory policy, and it was not told: %s", said.String())
	}
	child(mine.PUs, " prefer")
	if err := a.bindThread(&a.task.Ranks[1]); err != nil { // which is not bound
		t.Fatal(err)
	}
	child(a.allowedPUs, " default")
	if err := a.bindThread(&protocol.RankTask{PUs: []int{a.allowedPUs[0], 8000}}); !errors.Is(err, hw.ErrBind) {
		t.Errorf("a rank with a processor that is not there: %v", err)
	}
	a.unbindThread()
	if now, err := hw.Affinity(); err != nil || !slices.Equal(now, a.allowedPUs) {
		t.Errorf("the agent is left with %v, %v", now, err)
	}

	if err := hw.PreferMemory([]int{0}); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		t.Logf("nobody can set a memory policy here: %v", err)
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
	said.Reset()
	if err := errors.Join(a.bindThread(&mine), a.bindThread(&protocol.RankTask{Memory: []int{1000}})); err != nil || a.setMemory {
		t.Errorf("after memory of a node that is not there: %v, policies are set: %t", err, a.setMemory)
	}
	if set, err := hw.HasMemoryPolicy(); set || err != nil || !strings.Contains(said.String(), "1000") {
		t.Errorf("the next rank has the policy of the one before: %t, %v; it was told %s", set, err, said.String())
	}
}
