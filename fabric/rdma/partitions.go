package rdma

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/verbs"
)

// An InfiniBand port is a member of partitions, which the subnet manager writes into its table of partition keys. Two queue pairs
// exchange packets if they are in the same partition, and one of them at least is a full member. A queue pair is in one partition
// only, also one for datagrams. So there is one for datagrams in each partition that a peer may have in common with this process.
// Most ports have one partition, and those of RoCE have no other.

// defaultPartition is the key of the partition of all RoCE ports.
const defaultPartition = 0xffff

// partition is a partition of the port of a rail.
type partition struct {
	key   uint16
	index uint16    // of the key in the table of the port; the subnet manager may change it
	ud    *verbs.QP // for datagrams of the connection manager, of the first rail
}

// partitionTable is the table of partition keys of a port, in which 0 is an empty entry.
type partitionTable []uint16

// choose returns the partitions to use, at most cm.MaxPartitions: full memberships first, each in the order of the table. If only
// is not 0, it returns that partition alone.
func (t partitionTable) choose(only uint16) (list []partition) {
	for _, full := range [...]uint16{cm.FullMember, 0} {
		for i, key := range t {
			listed := slices.ContainsFunc(list, func(p partition) bool { return p.key|cm.FullMember == key|cm.FullMember })
			if key&^cm.FullMember == 0 || key&cm.FullMember != full || listed || only != 0 && key|cm.FullMember != only|cm.FullMember {
				continue
			}
			list = append(list, partition{key: key, index: uint16(i)})
		}
	}
	return list[:min(len(list), cm.MaxPartitions)]
}

// findPartitions finds the partitions of the port.
func (r *rail) findPartitions(port *verbs.PortAttr) error {
	table, err := r.queryPartitions(port)
	if err != nil {
		return err
	}
	if r.partitions = table.choose(r.onlyPartition()); len(r.partitions) == 0 {
		return fmt.Errorf("port %d is in the InfiniBand partitions %s%s", r.port, cm.KeyNames(table), r.missingPartition())
	}
	return nil
}

// datagramRecvs returns how many datagrams can arrive between two Polls.
func (r *rail) datagramRecvs() int { return len(r.partitions) * cmRecvs }

// createDatagramPairs creates the queue pairs for datagrams, and sets the address. On the first rail there is a queue pair in
// each partition; on others there is one, which only has an address.
func (r *rail) createDatagramPairs() (err error) {
	if r.gid, err = r.indexedGID(); err != nil {
		return err
	}
	for i := range r.partitions {
		if i > 0 && r.index > 0 {
			break
		}
		p := &r.partitions[i]
		if p.ud, err = r.createDatagramQP(r.sendCQ, r.recvCQ, cmSends, cmRecvs, p); err != nil {
			return err
		}
	}
	a, err := r.partitions[0].ud.Address()
	r.address = r.limitMTU(a)
	return err
}

// indexedGID returns the address that the set index means, not valid without an index. When the address is removed and added
// again, or a bond uses another of its links, it gets another index; then the address counts.
func (r *rail) indexedGID() (addr netip.Addr, err error) {
	if r.set.GIDIndex == nil {
		return addr, nil
	}
	gids, err := r.dev.GIDs(r.port)
	if err != nil {
		return addr, err
	}
	for _, g := range gids {
		if g.Index == *r.set.GIDIndex && g.Type == hw.GIDRoCEv2 {
			addr = g.Addr
		}
	}
	return addr, nil
}

// limitMTU applies the setting to an address.
func (r *rail) limitMTU(a verbs.Address) verbs.Address {
	for r.set.MTU != 0 && a.MTU.Bytes() > r.set.MTU {
		a.MTU--
	}
	return a
}

// onlyPartition returns the key of the only partition to use, 0 if all may be used. RoCE ports have only one.
func (r *rail) onlyPartition() uint16 {
	if !r.infiniBand {
		return 0
	}
	return uint16(r.set.PKey)
}

// missingPartition returns why no partition of the port can be used.
func (r *rail) missingPartition() string {
	if only := r.onlyPartition(); only != 0 {
		return fmt.Sprintf(", but %s=%#x demands another", tunables.RDMAPKey.Variable, only)
	}
	return "; the subnet manager must add one"
}

// createDatagramQP creates a queue pair for datagrams in a partition, and starts it.
func (r *rail) createDatagramQP(sendCQ, recvCQ *verbs.CQ, sends, recvs int, p *partition) (*verbs.QP, error) {
	qp, err := r.pd.CreateQP(verbs.QPConfig{
		Type: verbs.UD, SendCQ: sendCQ, RecvCQ: recvCQ, MaxSend: min(sends, r.granted.ud),
		MaxRecv: min(recvs, r.granted.ud), QKey: r.qkey, Port: r.port,
		PKeyIndex: int(p.index), GIDIndex: r.set.GIDIndex, GID: r.gid,
	})
	if err != nil {
		return nil, err
	}
	return qp, qp.Start()
}

// restartUD resets a queue pair for datagrams after it has failed, or after the key of its partition has moved to another index,
// which is given. The queue pair keeps its number, by which peers know it.
func (r *rail) restartUD(qp *verbs.QP, index uint16) error {
	if err := qp.Modify(verbs.Attr{State: verbs.StateReset}, verbs.AttrState); err != nil {
		return err
	}
	init := verbs.Attr{State: verbs.StateInit, Port: uint8(r.port), QKey: r.qkey, PKeyIndex: index}
	if err := qp.Modify(init, verbs.AttrState|verbs.AttrPKeyIndex|verbs.AttrPort|verbs.AttrQKey); err != nil {
		return err
	}
	return qp.Start()
}

// isDatagram reports whether a queue pair is one for datagrams of the connection manager.
func (r *rail) isDatagram(qpn uint32) bool {
	for i := range r.partitions {
		if ud := r.partitions[i].ud; ud != nil && ud.Num() == qpn {
			return true
		}
	}
	return false
}

// portState is what a rail knows of its port and what the network may change.
type portState struct {
	address verbs.Address
	indices [cm.MaxPartitions]uint16 // of the keys of the partitions
}

// sameConnections reports whether connections that were made in one state work in the other.
func (s portState) sameConnections(o *portState) bool {
	a, b := s.address, o.address
	a.MTU, b.MTU = 0, 0
	return a == b && s.indices == o.indices
}

// state returns the state that the rail knows.
func (r *rail) state() portState {
	s := portState{address: r.address}
	for i, p := range r.partitions {
		s.indices[i] = p.index
	}
	return s
}

// setState makes the rail use a state.
func (r *rail) setState(s portState) {
	r.address = s.address
	for i := range r.partitions {
		r.partitions[i].index = s.indices[i]
	}
}

// queryState returns the present state of the port. A partition that the port is no longer in keeps its index.
func (r *rail) queryState() (portState, error) {
	s := r.state()
	a, err := r.partitions[0].ud.Address()
	if err != nil {
		return s, err
	}
	s.address = r.limitMTU(a)
	port, err := r.dev.QueryPort(r.port)
	if err != nil {
		return s, err
	}
	table, err := r.queryPartitions(&port)
	if err != nil {
		return s, err
	}
	for i, p := range r.partitions {
		if index := slices.Index(table, p.key); index >= 0 {
			s.indices[i] = uint16(index)
		}
	}
	return s, nil
}

// queryPartitions returns the table of the port. That of a RoCE port has no meaning.
func (r *rail) queryPartitions(port *verbs.PortAttr) (t partitionTable, err error) {
	if r.infiniBand = port.IsInfiniBand(); !r.infiniBand {
		return partitionTable{defaultPartition}, nil
	}
	t = make(partitionTable, port.PKeyTableLen)
	for i := range t {
		if t[i], err = r.dev.QueryPKey(r.port, i); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// keys returns the keys of the partitions of the rail.
func (r *rail) keys() []uint16 {
	var keys [cm.MaxPartitions]uint16
	for i := range r.partitions {
		keys[i] = r.partitions[i].key // not the index, which changes: the responder calls this too
	}
	return keys[:len(r.partitions)]
}

// sharedPartition returns the partition to a peer: its indices in our list and in that of the peer.
func (r *rail) sharedPartition(peer *cm.RailAddress) (i, j int, err error) {
	theirs := peer.Keys()
	i, j, ok := cm.SharedPartition(r.keys(), theirs)
	if !ok {
		return 0, 0, &PartitionError{Here: r.keys(), There: theirs}
	}
	return i, j, nil
}

// railAddress returns what peers know of the rail. The numbers of the responder's queue pairs are those of the partitions.
func (r *rail) railAddress(responders []*verbs.QP) cm.RailAddress {
	a := cm.RailAddress{Address: r.address, N: uint8(len(r.partitions))}
	for i, p := range r.partitions {
		a.Partitions[i].Key = p.key
		if r.index == 0 {
			a.Partitions[i].UD, a.Partitions[i].Responder = p.ud.Num(), responders[i].Num()
		}
	}
	return a
}

// checkPath returns an error if the port of a peer cannot be reached from that of this rail. The result is the same at both ends.
func (r *rail) checkPath(peer *cm.RailAddress) error {
	if err := r.address.CheckPath(peer.Address); err != nil {
		return fmt.Errorf("%w: %w", fabric.ErrNotSupported, err)
	}
	if ours, theirs := subnetPrefix(&r.address), subnetPrefix(&peer.Address); ours != theirs {
		return fmt.Errorf("%w: the local port, %v, and that of the peer, %v, are in different InfiniBand subnets; "+
			"only a subnet manager knows the LID of the router between them", fabric.ErrNotSupported, &r.address, &peer.Address)
	}
	_, _, err := r.sharedPartition(peer)
	return err
}

// subnetPrefix returns the prefix of the InfiniBand subnet of a port, 0 for other ports.
func subnetPrefix(a *verbs.Address) (prefix [8]byte) {
	if a.GIDType == hw.GIDInfiniBand && a.GID.IsValid() {
		b := a.GID.As16()
		prefix = [8]byte(b[:8])
	}
	return prefix
}

// PartitionError says that two InfiniBand ports are in no common partition in which one of them at
// least is a full member. It wraps [fabric.ErrNotSupported].
type PartitionError struct {
	Here, There []uint16 // the partition keys that this process and the peer may use
}

// Error names the partitions of both ports.
func (e *PartitionError) Error() string {
	return fmt.Sprintf("%v: no InfiniBand partition in common of which one process is a full member: this process is in %s; "+
		"the peer in %s (IBRUN_RDMA_PKEY chooses one)", fabric.ErrNotSupported, cm.KeyNames(e.Here), cm.KeyNames(e.There))
}

// Unwrap returns fabric.ErrNotSupported.
func (e *PartitionError) Unwrap() error { return fabric.ErrNotSupported }
