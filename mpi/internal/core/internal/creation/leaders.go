package creation

import (
	"encoding/binary"
	"slices"
)

// leaderChunk is the number of processes in one message.
const leaderChunk = 64

// SwapGroups sends the processes of this group to the other leader, and returns those of the other
// group. The exchange is one of the two leaders, in a job of size processes. nil says that this
// group has failed. All messages of the other leader are received in any case, so that none is left
// for a later exchange with this tag.
func (x *Exchange) SwapGroups(mine []int32, size int) ([]int32, error) {
	if err := x.PeerError(); err != nil {
		return nil, err
	}
	if err := x.sendAll(mine); err != nil {
		return nil, err
	}
	var theirs []int32
	n := -1 // not known yet
	for n < 0 || len(theirs) < n {
		b, err := x.queue.recv(x.recordAs, sender{x.id, x.peers[1-x.rank]}, x.peers)
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
			if n = int(binary.LittleEndian.Uint32(b)); n == 0 || n > size {
				return nil, errCtrlLength
			}
			continue
		}
		for len(b) >= 4 && len(theirs) < n {
			p := binary.LittleEndian.Uint32(b)
			if p >= uint32(size) {
				return nil, errCtrlLength
			}
			theirs, b = append(theirs, int32(p)), b[4:]
		}
		if len(b) != 0 {
			return nil, errCtrlLength
		}
	}
	return theirs, nil
}

// sendAll sends the number of processes and then the processes. The messages leave while the engine
// makes progress.
func (x *Exchange) sendAll(mine []int32) error {
	post := func(b []byte) error {
		h, err := x.send(1-x.rank, b)
		if err == nil {
			err = x.queue.engine.Requests().Free(h)
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
