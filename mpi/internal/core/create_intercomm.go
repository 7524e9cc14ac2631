package core

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/core/internal/creation"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// The leaders of the two groups exchange the processes of their groups by control messages, not by
// messages of the peer communicator: receives of the program could match those.

// CreateIntercomm creates an intercommunicator of the processes of c and those of another one.
// The arguments peer, remoteLeader and tag are used at the local leader only.
func CreateIntercomm(c *Comm, localLeader int, peer *Comm, remoteLeader, tag int) (*Comm, error) {
	const call = perf.CreateIntercomm
	op := call.String()
	if err := c.checkIntracomm(op); err != nil {
		return nil, err
	}
	if err := c.coll.checkCall(call); err != nil {
		return nil, err
	}
	a := newAgreement(c, call)
	var failed error
	var link *creation.Exchange
	if uint(localLeader) >= uint(len(c.peers)) {
		failed = c.newError(op, ErrRank, rankError(localLeader, len(c.peers)))
	} else if localLeader == c.Rank() {
		link, failed = a.newLeaderLink(peer, remoteLeader, tag)
	}
	err := a.agreeLeader(localLeader, failed)
	if link != nil {
		defer c.proc.ctrl.End(link.ID())
		if err != nil {
			_, _ = link.SwapGroups(nil, c.proc.boot.Size) // the other group waits for this leader; the first error is returned
		}
	}
	if err != nil {
		return nil, err
	}
	remote, tag, err := a.shareRemoteGroup(localLeader, link, tag)
	if err != nil {
		return nil, err
	}
	// All ranks know both groups now, so all of them find this error by themselves.
	local := rankSet(c.peers)
	if slices.ContainsFunc(remote, func(n int32) bool { return local[n] }) {
		return nil, c.newError(op, ErrGroup, errors.New("the groups have processes in common"))
	}
	d := newInterChild(c, c.peers, remote)
	first, second := orderedGroups(d.localGroup, d.peers)
	// A tag of IntercommFromGroups has no NUL.
	return newAgreement(d, call).createFromGroup(creation.NewID(fmt.Sprintf("\x00inter %d", tag), first, second), nil)
}

// agreeLeader returns an error at all ranks unless all have given the same leader and none has
// failed.
func (a *agreement) agreeLeader(leader int, failed error) error {
	// The maximum of the negated leaders is the negated minimum. If all ranks give the same leader,
	// it is the negated maximum as well.
	mine, all := [3]int64{int64(leader), -int64(leader), 0}, [3]int64{}
	if failed != nil {
		mine = [3]int64{-1 << 62, -1 << 62, 1} // it does not count
	}
	err := a.allreduce(Bytes(all[:]), Bytes(mine[:]), datatype.Int64, Max)
	switch {
	case failed != nil:
		return a.comm.joinError(a.op, failed, err)
	case err != nil:
		return err
	case all[0] != -all[1]:
		return a.comm.newError(a.op, ErrRank, errors.New("the ranks gave different local leaders"))
	case all[2] != 0:
		return a.comm.newError(a.op, ErrOther, errOtherRank)
	}
	return nil
}

// newLeaderLink checks the arguments of the leader, and begins the exchange with the other leader.
func (a *agreement) newLeaderLink(peer *Comm, remoteLeader, tag int) (*creation.Exchange, error) {
	if err := peer.checkUsable(a.op); err != nil {
		return nil, err
	}
	c, p := a.comm, a.comm.proc
	self := int32(p.boot.Rank)
	switch {
	case peer.proc != p || peer.session != c.session:
		return nil, c.newError(a.op, ErrComm, errors.New("the peer communicator belongs to another session"))
	case uint(remoteLeader) >= uint(len(peer.peers)):
		return nil, c.newError(a.op, ErrRank, rankError(remoteLeader, len(peer.peers)))
	case peer.peers[remoteLeader] == self:
		return nil, c.newError(a.op, ErrRank, errors.New("the remote leader is the local leader"))
	case uint(tag) > maxTag:
		return nil, c.newError(a.op, ErrTag, fmt.Errorf("tag %d is out of range (0 to %d)", tag, maxTag))
	}
	// Sorted, so that both leaders make the same id of them.
	leaders := []int32{self, peer.peers[remoteLeader]}
	slices.Sort(leaders)
	id := creation.NewID(fmt.Sprintf("\x00leaders %d %d", peer.contextID, tag), leaders)
	p.ctrl.Begin(id)
	return creation.New(&p.ctrl, id, leaders, self, a.recordAs), nil
}

// shareRemoteGroup returns the processes of the other group and the tag, which the leader learns
// through link and passes on.
func (a *agreement) shareRemoteGroup(leader int, link *creation.Exchange, tag int) ([]int32, int, error) {
	c := a.comm
	var remote []int32
	var failed error
	head := [3]int64{} // class of the error or 0, number of processes, tag
	if link != nil {
		if remote, failed = link.SwapGroups(c.peers, c.proc.boot.Size); failed != nil {
			failed = c.wrapError(a.op, failed)
			head[0] = int64(c.proc.classify(failed))
		}
		head[1], head[2] = int64(len(remote)), int64(tag)
	}
	err := a.bcast(Bytes(head[:]), leader)
	switch {
	case failed != nil:
		return nil, 0, c.joinError(a.op, failed, err)
	case err != nil:
		return nil, 0, err
	}
	if head[0] != 0 {
		return nil, 0, c.newError(a.op, Class(head[0]), errors.New("the leader did not get the remote group"))
	}
	// Only the leader has the list. The others have learned its length, so that one more message is
	// enough.
	if link == nil {
		remote = make([]int32, head[1])
	}
	return remote, int(head[2]), a.bcast(Bytes(remote), leader)
}

// bcast copies b of the root to all ranks.
func (a *agreement) bcast(b []byte, root int) error {
	c := a.comm
	if err := c.coll.beginCall(a.recordAs, len(b)); err != nil {
		return err
	}
	defer c.coll.endCall()
	return c.wrapError(a.op, coll.Bcast(&c.coll.main, b, root))
}
