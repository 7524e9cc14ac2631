package devices

import (
	"fmt"
	"slices"

	"github.com/ibrun/ibrun/fabric/rdma/internal/cm"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/verbs"
)

// An InfiniBand port is a member of partitions, which the subnet manager writes into its table of
// partition keys. Two queue pairs exchange packets if they are in the same partition, and one of
// them at least is a full member. A queue pair is in one partition only, also one for datagrams. So
// there is one for datagrams in each partition that a peer may have in common with this process.
// Most ports have one partition, and those of RoCE have no other.

// defaultPartition is the key of the partition of all RoCE ports.
const defaultPartition = 0xffff

// partition is a partition of the port of a rail.
type partition struct {
	key   uint16
	index uint16    // of the key in the table of the port; the subnet manager may change it
	ud    *verbs.QP // for datagrams; rails beyond the first have one only in the first partition
}

// partitionTable is the table of partition keys of a port, in which 0 is an empty entry.
type partitionTable []uint16

// choose returns the partitions to use, at most cm.MaxPartitions: full memberships first, each in
// the order of the table. If only is not 0, it returns that partition alone.
func (t partitionTable) choose(only uint16) (list []partition) {
	for _, full := range [...]uint16{cm.FullMember, 0} {
		for i, key := range t {
			listed := slices.ContainsFunc(list, func(p partition) bool { return p.key|cm.FullMember == key|cm.FullMember })
			if !(Choice{PKey: int(only)}).allowsPartition(key) || key&cm.FullMember != full || listed {
				continue
			}
			list = append(list, partition{key: key, index: uint16(i)})
		}
	}
	return list[:min(len(list), cm.MaxPartitions)]
}

// findPartitions finds the partitions of the port.
func (r *Rail) findPartitions(port *verbs.PortAttr) error {
	table, err := r.queryPartitions(port)
	if err != nil {
		return err
	}
	if r.partitions = table.choose(r.onlyPartition()); len(r.partitions) == 0 {
		return fmt.Errorf("port %d is in the InfiniBand partitions %s%s", r.Port, cm.KeyNames(table), r.missingPartition())
	}
	return nil
}

// onlyPartition returns the key of the only partition to use, 0 if all may be used. RoCE ports have
// only one.
func (r *Rail) onlyPartition() uint16 {
	if !r.InfiniBand {
		return 0
	}
	return uint16(r.choice.PKey)
}

// missingPartition returns why no partition of the port can be used.
func (r *Rail) missingPartition() string {
	if only := r.onlyPartition(); only != 0 {
		return fmt.Sprintf(", but %s=%#x demands another", tunables.RDMAPKey.Variable, only)
	}
	return "; the subnet manager must add one"
}

// queryPartitions returns the table of the port. That of a RoCE port has no meaning.
func (r *Rail) queryPartitions(port *verbs.PortAttr) (t partitionTable, err error) {
	if !r.InfiniBand {
		return partitionTable{defaultPartition}, nil
	}
	t = make(partitionTable, port.PKeyTableLen)
	for i := range t {
		if t[i], err = r.Dev.QueryPKey(r.Port, i); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Keys returns the keys of the partitions of the rail.
func (r *Rail) Keys() []uint16 {
	var keys [cm.MaxPartitions]uint16
	for i := range r.partitions {
		keys[i] = r.partitions[i].key // not the index, which changes: the responder calls this too
	}
	return keys[:len(r.partitions)]
}

// SharedPartition returns the partition to a peer: its indices in our list and in that of the peer.
// The error is a [*PartitionError].
func (r *Rail) SharedPartition(peer *cm.RailAddress) (i, j int, err error) {
	theirs := peer.Keys()
	i, j, ok := cm.SharedPartition(r.Keys(), theirs)
	if !ok {
		return 0, 0, &PartitionError{Here: r.Keys(), There: theirs}
	}
	return i, j, nil
}
