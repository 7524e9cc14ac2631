package core

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
	"github.com/ibrun/ibrun/perf"
)

// The leaders of the two groups exchange the processes of their groups by control messages, not by messages of the peer
// communicator: receives of the program could match those.

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
	a := c.newAgreement(call)
	var failed error
	var link *leaderLink
	if uint(localLeader) >= uint(len(c.peers)) {
		failed = c.newError(op, ErrRank, rankError(localLeader, len(c.peers)))
	} else if localLeader == c.Rank() {
		link, failed = a.newLeaderLink(peer, remoteLeader, tag)
	}
	err := a.agreeLeader(localLeader, failed)
	if link != nil {
		defer link.queue.end(link.id)
		if err != nil {
			_, _ = link.exchange(nil) // the other group waits for this leader; the first error is returned
		}
	}
	if err != nil {
		return nil, err
	}
	remote, tag, err := a.shareRemoteGroup(localLeader, link, tag)
	if err != nil {
		return nil, err
	}
	local := rankSet(c.peers)
	if slices.ContainsFunc(remote, func(n int32) bool { return local[n] }) {
		return nil, c.newError(op, ErrGroup, errors.New("the groups have processes in common"))
	}
	d := c.newInterChild(c.peers, remote)
	first, second := d.orderedGroups()
	// A tag of IntercommFromGroups has no NUL.
	return d.newAgreement(call).createFromGroup(newCreationID(fmt.Sprintf("\x00inter %d", tag), first, second), nil)
}

// agreeLeader returns an error at all ranks unless all have given the same leader and none has failed.
func (a *agreement) agreeLeader(leader int, failed error) error {
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

// leaderLink exchanges messages with the leader of the other group.
type leaderLink struct {
	*groupCreation
	remote int // index of the other leader in peers
	size   int // number of processes of the job
}

// newLeaderLink checks the arguments of the leader, and begins the exchange with the other leader.
func (a *agreement) newLeaderLink(peer *Comm, remoteLeader, tag int) (*leaderLink, error) {
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
	leaders := []int32{self, peer.peers[remoteLeader]}
	slices.Sort(leaders)
	f := &groupCreation{queue: &p.ctrl, peers: leaders, rank: slices.Index(leaders, self), self: self,
		id: newCreationID(fmt.Sprintf("\x00leaders %d %d", peer.contextID, tag), leaders), recordAs: a.recordAs}
	p.ctrl.begin(f.id)
	return &leaderLink{f, 1 - f.rank, p.boot.Size}, nil
}

// leaderChunk is the number of processes in one message.
const leaderChunk = 64

// exchange sends the processes of this group to the other leader, and returns those of the other group. nil says that this group
// has failed. All messages of the other leader are received in any case, so that none is left for a later exchange with this tag.
func (l *leaderLink) exchange(mine []int32) ([]int32, error) {
	if err := l.queue.engine.PeerError(groupCreateContext, l.peers); err != nil {
		return nil, err
	}
	if err := l.sendAll(mine); err != nil {
		return nil, err
	}
	var theirs []int32
	n := -1 // not known yet
	for n < 0 || len(theirs) < n {
		b, err := l.queue.recv(l.recordAs, sender{l.id, l.peers[l.remote]}, l.peers)
		if err != nil {
			return nil, err
		}
		if len(b) == 0 {
			return nil, errAbandoned
		}
		if n < 0 {
			if len(b) != 4 {
				return nil, errCtrlLength
			}
			if n = int(binary.LittleEndian.Uint32(b)); n == 0 || n > l.size {
				return nil, errCtrlLength
			}
			continue
		}
		for len(b) >= 4 && len(theirs) < n {
			x := binary.LittleEndian.Uint32(b)
			if x >= uint32(l.size) {
				return nil, errCtrlLength
			}
			theirs, b = append(theirs, int32(x)), b[4:]
		}
		if len(b) != 0 {
			return nil, errCtrlLength
		}
	}
	return theirs, nil
}

// sendAll sends the number of processes and then the processes. The messages leave while the engine makes progress.
func (l *leaderLink) sendAll(mine []int32) error {
	post := func(b []byte) error {
		h, err := l.send(l.remote, b)
		if err == nil {
			err = l.queue.engine.Requests().Free(h)
		}
		return err
	}
	if mine == nil {
		return post(nil)
	}
	if err := post(binary.LittleEndian.AppendUint32(nil, uint32(len(mine)))); err != nil {
		return err
	}
	for chunk := range slices.Chunk(mine, leaderChunk) {
		var b []byte
		for _, n := range chunk {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
		if err := post(b); err != nil {
			return err
		}
	}
	return nil
}

// shareRemoteGroup returns the processes of the other group and the tag, which the leader learns through link and passes on.
func (a *agreement) shareRemoteGroup(leader int, link *leaderLink, tag int) ([]int32, int, error) {
	c := a.comm
	var remote []int32
	var failed error
	head := [3]int64{} // class of the error or 0, number of processes, tag
	if link != nil {
		if remote, failed = link.exchange(c.peers); failed != nil {
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
