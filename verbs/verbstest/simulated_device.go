//go:build unix

package verbstest

import (
	"fmt"
	"slices"
	"syscall"

	"github.com/ibrun/ibrun/verbs"
	"github.com/ibrun/ibrun/verbs/internal/ib"
)

// SimulatedDevice is what a device of a simulated network supports. A call that asks for more fails as the drivers of Linux do.
// As with some of these, 0 in Attr.MaxMRSize and Port.MaxMsgSize says nothing.
type SimulatedDevice struct {
	Attr verbs.DeviceAttr
	Port verbs.PortAttr
	// CompVectors is the number of completion vectors.
	CompVectors int
	// MaxInline is the largest inline message in bytes. Attr.MaxInline is what the device reports, mostly nothing.
	MaxInline int
	// GrantsLess makes the device grant MaxInline to a queue pair that asks for more, as bnxt_re does. Otherwise it refuses.
	GrantsLess bool
	// NoRC and NoUD are set if the device has no queue pairs of the type.
	NoRC, NoUD bool
}

// defaultSimulatedDevice returns a device with plenty of everything.
func defaultSimulatedDevice() SimulatedDevice {
	return SimulatedDevice{
		Attr: verbs.DeviceAttr{MaxMRSize: 1 << 40, MaxQP: 1 << 16, MaxQPWR: 1 << 14, MaxSGE: 32, MaxSGERd: 32, MaxCQ: 100,
			MaxCQE: 1 << 16, MaxMR: 1 << 16, MaxPD: 100, MaxQPRdAtom: 16, MaxQPInitRdAtom: 16, MaxAH: 1 << 16, MaxSRQ: 10,
			MaxSRQWR: 1 << 15, MaxSRQSGE: 32, MaxPKeys: 1, Ports: 1},
		Port: verbs.PortAttr{State: verbs.PortActive, MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024, MaxMsgSize: 1 << 30,
			GIDTableLen: 2, PKeyTableLen: 1, LinkLayer: 2},
		CompVectors: 4,
		MaxInline:   1 << 10,
	}
}

// SetDevice changes what the devices of a name support that are opened from now on.
func (n *SimulatedNetwork) SetDevice(name string, change func(*SimulatedDevice)) {
	d := n.device(name)
	change(&d)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.devices[name] = d
}

// device returns what the devices of a name support.
func (n *SimulatedNetwork) device(name string) SimulatedDevice {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.deviceLocked(name)
}

// deviceLocked is device for a caller that holds mu.
func (n *SimulatedNetwork) deviceLocked(name string) SimulatedDevice {
	if d, ok := n.devices[name]; ok {
		return d
	}
	return defaultSimulatedDevice()
}

// RegisteredAccess returns how many open memory regions have each set of access rights.
func (n *SimulatedNetwork) RegisteredAccess() map[verbs.Access]int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := map[verbs.Access]int{}
	for _, a := range n.access {
		count[a]++
	}
	return count
}

// SimulatedCall is a call that a simulated device can refuse.
type SimulatedCall int

// The calls of devices. Those from CallNotify on only RefuseOn refuses. CallModifyQP is each change of a queue pair; the calls
// after it are changes to one state, for which f is called as well.
const (
	CallOpen SimulatedCall = iota
	CallQueryDevice
	CallQueryPort
	CallQueryGIDs
	CallQueryPKey
	CallAllocPD
	CallCreateChannel
	CallCreateCQ
	CallCreateSRQ
	CallCreateQP
	CallCreateAH
	CallRegMR
	CallModifyQP
	CallToReset
	CallToInit
	CallToRTR
	CallToRTS
	CallToErr
	CallQueryQP
	CallNotify
	CallPoll
	CallSend
	CallRecv
	CallSRQRecv
	CallDestroyQP
	CallDeregMR
	CallDestroyAH
	CallDestroyCQ
	CallDestroySRQ
	CallDestroyChannel
	CallDeallocPD
	CallCloseDevice

	numSimulatedCalls
)

// SimulatedCalls returns all calls.
func SimulatedCalls() (all []SimulatedCall) {
	for c := range numSimulatedCalls {
		all = append(all, c)
	}
	return all
}

// String returns the name of the call in libibverbs, with the new state if that matters.
func (c SimulatedCall) String() string {
	return [...]string{"open_device", "query_device", "query_port", "query_gid_table", "query_pkey", "alloc_pd",
		"create_comp_channel", "create_cq", "create_srq", "create_qp", "create_ah", "reg_mr", "modify_qp",
		"modify_qp to RESET", "modify_qp to INIT", "modify_qp to RTR", "modify_qp to RTS", "modify_qp to ERR", "query_qp",
		"req_notify_cq", "poll_cq", "post_send", "post_recv", "post_srq_recv", "destroy_qp", "dereg_mr", "destroy_ah",
		"destroy_cq", "destroy_srq", "destroy_comp_channel", "dealloc_pd", "close_device"}[c]
}

// Refuse makes each call fail that creates, changes or queries something, if f returns an error for it, such as ENOMEM. A nil f
// refuses nothing.
func (n *SimulatedNetwork) Refuse(f func(SimulatedCall) error) {
	if f == nil {
		n.RefuseOn(nil)
		return
	}
	n.RefuseOn(func(_ string, c SimulatedCall) error {
		if c >= CallNotify {
			return nil
		}
		return f(c)
	})
}

// RefuseOn makes each call on a device fail for which f returns an error. A nil f refuses nothing.
func (n *SimulatedNetwork) RefuseOn(f func(device string, c SimulatedCall) error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.refuse = f
}

// call returns the error with which a call on a device is refused. It names the call, as the error of a provider does.
func (n *SimulatedNetwork) call(device string, c SimulatedCall) error {
	n.mu.Lock()
	f := n.refuse
	n.mu.Unlock()
	if f == nil {
		return nil
	}
	if err := f(device, c); err != nil {
		return fmt.Errorf("ibv_%v: %w", c, err)
	}
	return nil
}

// call returns the error with which a call on the device is refused. A call that creates, changes or queries something fails with
// EIO once the device was removed, as the kernel's do.
func (d *simDevice) call(c SimulatedCall) error {
	if err := d.net.call(d.name, c); err != nil || c >= CallNotify {
		return err
	}
	d.net.mu.Lock()
	defer d.net.mu.Unlock()
	if d.removed {
		return fmt.Errorf("ibv_%v: %w", c, syscall.EIO)
	}
	return nil
}

// modify is call for a change of a queue pair.
func (d *simDevice) modify(mask verbs.AttrMask, to verbs.State) error {
	err := d.call(CallModifyQP)
	change, ok := map[verbs.State]SimulatedCall{verbs.StateReset: CallToReset, verbs.StateInit: CallToInit,
		verbs.StateRTR: CallToRTR, verbs.StateRTS: CallToRTS, verbs.StateErr: CallToErr}[to]
	if err == nil && ok && mask&verbs.AttrState != 0 {
		err = d.call(change)
	}
	return err
}

// qpsOf returns the open queue pairs of a device. The caller must hold mu.
func (n *SimulatedNetwork) qpsOf(d *simDevice) (qps []*simQP) {
	for _, q := range n.qps {
		if q.dev == d {
			qps = append(qps, q)
		}
	}
	return qps
}

// checkQP checks a queue pair that is to be created, and reduces its inline size to what is granted.
func (d *SimulatedDevice) checkQP(init *ib.QPInit) error {
	c := &init.Cap
	switch typ := verbs.QPType(init.Type); {
	case typ == verbs.RC && d.NoRC, typ == verbs.UD && d.NoUD:
		return syscall.EOPNOTSUPP
	case max(c.SendWR, c.RecvWR) > d.Attr.MaxQPWR, max(c.SendSGE, c.RecvSGE) > d.Attr.MaxSGE,
		int(c.Inline) > d.MaxInline && !d.GrantsLess:
		return syscall.EINVAL
	}
	c.Inline = min(c.Inline, uint32(d.MaxInline))
	return nil
}

// checkModify checks a change of attributes.
func (d *SimulatedDevice) checkModify(a *ib.QPAttr, m verbs.AttrMask) error {
	if m&verbs.AttrMaxRDAtomic != 0 && uint32(a.MaxRdAtomic) > d.Attr.MaxQPInitRdAtom ||
		m&verbs.AttrMaxDestRDAtomic != 0 && uint32(a.MaxDestRdAtomic) > d.Attr.MaxQPRdAtom {
		return syscall.EINVAL
	}
	return nil
}

// ibPortAttr converts attributes to those of package ib.
func ibPortAttr(a verbs.PortAttr) ib.PortAttr {
	return ib.PortAttr{
		State: uint8(a.State), MaxMTU: uint8(a.MaxMTU), ActiveMTU: uint8(a.ActiveMTU), CapFlags: a.CapFlags,
		MaxMsgSize: a.MaxMsgSize, BadPKey: a.BadPKey, QKeyViolations: a.QKeyViolations, GIDTableLen: a.GIDTableLen,
		PKeyTableLen: a.PKeyTableLen, LID: a.LID, SMLID: a.SMLID, LMC: a.LMC, MaxVL: a.MaxVL, SMSL: a.SMSL,
		SubnetTimeout: a.SubnetTimeout, InitTypeReply: a.InitTypeReply, ActiveWidth: a.ActiveWidth, ActiveSpeed: a.ActiveSpeed,
		PhysState: a.PhysState, LinkLayer: a.LinkLayer, Flags: a.Flags,
	}
}

// CompVectors returns the completion vectors with which completion queues were created on all devices, in order of creation.
func (n *SimulatedNetwork) CompVectors() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.vectors)
}
