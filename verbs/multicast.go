package verbs

import "net/netip"

// AttachMulticast makes a UD queue pair receive datagrams to a multicast group. lid is the LID of the group on InfiniBand, and 0
// for RoCE.
func (q *QP) AttachMulticast(group netip.Addr, lid uint16) error {
	const op = "attach to a multicast group"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.fail(op, q.ib.AttachMulticast(gidBytes(group), lid))
}

// DetachMulticast ends AttachMulticast. A queue pair cannot be closed while it is attached.
func (q *QP) DetachMulticast(group netip.Addr, lid uint16) error {
	const op = "detach from a multicast group"
	if err := q.enter(op); err != nil {
		return err
	}
	defer q.leave()
	return q.fail(op, q.ib.DetachMulticast(gidBytes(group), lid))
}
