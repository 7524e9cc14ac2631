package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
	"github.com/ibrun/ibrun/hw"
)

// A process inherits the PU mask and the memory policy of the thread that starts it. So the agent binds its own thread as a
// rank is to be bound, starts the rank, and restores the thread after the last one. The rank needs no code for it, and its
// runtime sees the right number of processors from its first instruction.

// initBinding reads the PUs and the memory policy of this process. A memory policy that is already set, for instance by
// numactl, is the user's choice and stays.
func (a *agent) initBinding() (err error) {
	if a.allowedPUs, err = hw.Affinity(); err != nil {
		return err
	}
	if !slices.ContainsFunc(a.task.Ranks, func(r protocol.RankTask) bool { return r.Memory != nil }) {
		return nil
	}
	set, err := hw.HasMemoryPolicy()
	if err != nil {
		a.noteNoMemoryPolicy(err)
		return nil
	}
	a.setMemory = !set
	return nil
}

// bindThread binds the calling thread, which must be locked, to the PUs and memory of a rank.
func (a *agent) bindThread(r *protocol.RankTask) error {
	pus := r.PUs
	if pus == nil {
		pus = a.allowedPUs // the previous rank may have been bound
	}
	if err := hw.Bind(pus); err != nil {
		return err
	}
	if !a.setMemory {
		return nil
	}
	err := hw.PreferMemory(r.Memory)
	if err == nil {
		return nil
	}
	a.setMemory = false
	a.noteNoMemoryPolicy(err)
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, fs.ErrPermission) {
		return nil // then the previous rank had no policy either
	}
	return hw.PreferMemory(nil) // do not keep the policy of the previous rank
}

// unbindThread undoes bindThread.
func (a *agent) unbindThread() {
	err := hw.Bind(a.allowedPUs)
	if a.setMemory && err == nil {
		err = hw.PreferMemory(nil)
	}
	if err != nil {
		a.send(&protocol.Event{Kind: protocol.EventNote, Rank: -1, Text: err.Error()})
	}
}

// noteNoMemoryPolicy reports that ranks run without a memory policy.
func (a *agent) noteNoMemoryPolicy(why error) {
	a.send(&protocol.Event{Kind: protocol.EventNote, Rank: -1,
		Text: fmt.Sprintf("ranks use the kernel's default memory policy, which usually allocates on the local node "+
			"(a container needs --cap-add SYS_NICE for more): %v", why)})
}
