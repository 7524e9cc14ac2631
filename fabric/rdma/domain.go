package rdma

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

var _ fabric.Domain = (*domain)(nil)

// domain is one process's side. What is not said to be guarded otherwise belongs to the goroutine that calls its methods.
type domain struct {
	key         [32]byte
	self, size  int
	incarnation uint64
	set         Settings
	params      verbs.Params // of connections
	addr        []byte
	caps        fabric.Caps
	rails       []*rail

	ways    []*endpoint    // by peer, nil until there is something to keep of it
	byNum   numbers        // by queue pair
	pool    slots          // where messages arrive
	saved   int            // of its slots, those set aside for peers
	sends   slots          // from where messages are sent
	inbox   inbox          // what has happened and was not told yet
	lent    []loan         // what the last Poll lent
	evs     []fabric.Event // of the Poll under way, the first of them filled
	filled  int
	office  office
	loop    loop // to ourselves
	regions regions
	keys    keyTable // of regions
	sleeper *sleeper
	turn    uint          // counts looks for messages: Polls, mostly
	due     uint          // in which the clock is looked at next
	calm    int           // Polls to come that need not see to everything
	stride  uint          // from one look to the next
	armed   atomic.Bool   // since the last Poll: may be slept on
	more    bool          // a look at a queue has not taken all there was
	room    bool          // slots to send from became free since it was last armed
	choked  bool          // a Send was refused for want of a slot or of room in a queue
	now     time.Duration // when the clock was looked at
	next    time.Duration // when there is something to do
	beat    time.Duration // when hearts beat next
	began   time.Time
	shut    bool
	wcs     [16]verbs.WC

	calling  []*endpoint // were asked to connect
	live     []*endpoint // are connected
	troubles []trouble
	owing    []*endpoint // are due a grant, or the first word over a connection, for which there was no room
	wants    atomic.Bool // wanting is not empty
	resent   uint64      // messages posted again on a connection that was made anew; what devices repeat themselves they do not tell

	// mu guards what Read and Write share with the other methods: all queues, all transfers, and the following.
	mu       sync.Mutex
	under    []int // requests under way, by rail
	spare    *op
	scraps   []uint32 // free places in scrapMem
	scrapMR  *verbs.MR
	scrapMem []byte       // where keys of peers are read to, nil if there is one rail
	moving   atomic.Int32 // transfers that have not ended; changed under mu
	wanting  []*endpoint  // are to be asked to connect
	dirty    []*endpoint  // have requests that the device was not told of
	soiled   atomic.Bool  // there are some
	bell     *time.Timer  // rings for them, should nobody poll
	belled   bool         // it will
}

// railNum names a queue pair.
type railNum struct {
	rail *rail
	num  uint32
}

// numbers finds the endpoint that a queue pair belongs to. Completions in a row are mostly of few pairs, which lie in front.
type numbers struct {
	all   map[railNum]*endpoint
	front [16]struct {
		num railNum
		e   *endpoint
	}
}

func (n *numbers) find(r *rail, num uint32) *endpoint {
	f := &n.front[num%uint32(len(n.front))]
	if key := (railNum{r, num}); f.num != key || f.e == nil {
		f.num, f.e = key, n.all[key]
	}
	return f.e
}

func (n *numbers) set(r *rail, num uint32, e *endpoint) {
	n.all[railNum{r, num}] = e
	n.front[num%uint32(len(n.front))].e = nil
}

func (n *numbers) remove(r *rail, num uint32) {
	delete(n.all, railNum{r, num})
	n.front[num%uint32(len(n.front))].e = nil
}

// loan is a slot that was lent to the caller.
type loan struct {
	e    *endpoint
	slot uint32
}

// failure is what calls are answered with from now on.
type failure struct{ err error }

var (
	errShut = failure{fmt.Errorf("fabric/rdma: domain: %w", fabric.ErrClosed)}
	errEnd  = failure{fmt.Errorf("fabric/rdma: endpoint: %w", fabric.ErrClosed)}
)

func (d *domain) Addr() []byte { return d.addr }

func (d *domain) Caps() fabric.Caps { return d.caps }

// Retransmits returns the number of messages that were sent again over new connections. Devices do not report their own
// retransmissions.
func (d *domain) Retransmits() uint64 { return d.resent }

func (d *domain) Register(b []byte) (fabric.Region, error) {
	if d.shut {
		return fabric.Region{}, errShut.err
	}
	return d.regions.add(b)
}

func (d *domain) Deregister(r fabric.Region) error {
	if d.shut {
		return errShut.err
	}
	return d.regions.remove(r.Local)
}

func (d *domain) Connect(peer int, addr []byte) (fabric.Endpoint, error) {
	if d.shut {
		return nil, errShut.err
	}
	if peer < 0 || peer >= d.size {
		return nil, fmt.Errorf("fabric/rdma: connect: peer %d of %d", peer, d.size)
	}
	if e := d.ways[peer]; e != nil && e.at.rails != nil {
		return e, nil
	}
	at, err := parseAddress(addr)
	if err != nil {
		return nil, fmt.Errorf("fabric/rdma: connect to peer %d: %w", peer, err)
	}
	if err := d.meets(at); err != nil {
		return nil, fmt.Errorf("fabric/rdma: connect to peer %d: %w", peer, err)
	}
	e := d.way(peer)
	e.at, e.hands.theirs = at, at.incarnation
	return e, nil
}

// way is the endpoint of a peer, made if there is none.
func (d *domain) way(peer int) *endpoint {
	e := d.ways[peer]
	if e == nil {
		e = &endpoint{d: d, peer: peer}
		e.hands = handshake{self: uint32(d.self), peer: uint32(peer), mine: d.incarnation}
		d.ways[peer] = e
	}
	return e
}

// Poll looks for messages. To the rest it sees now and then, as long as nobody waits for that.
func (d *domain) Poll(evs []fabric.Event) (int, error) {
	if d.shut {
		return 0, errShut.err
	}
	woken := d.armed.Load()
	if woken {
		if err := d.disarm(); err != nil {
			return 0, err
		}
	}
	n, err := d.look()
	rest := d.calm == 0 || d.stirred()
	if !rest {
		d.calm--
		if n == 0 && err == nil && len(d.lent) == 0 && d.inbox.len() == 0 {
			return 0, nil
		}
	}
	d.release()
	d.evs, d.filled = evs, 0
	err = d.take(n, err)
	came := d.filled > 0 || d.inbox.len() > 0 // the caller waits for it
	if err == nil && rest && (woken || !came || d.turn%restEvery == 0) {
		err = d.tend()
	}
	if err == nil && (d.inbox.len() > 0 || d.loop.some()) {
		d.deliver()
	}
	d.evs = nil
	if d.soiled.Load() {
		d.ring()
	}
	if err != nil {
		return 0, err
	}
	return d.filled, nil
}

const (
	// calmPolls follow one that saw to everything, and do not: so many that between a message and its answer there is mostly none
	// that does.
	calmPolls = 63
	// restEvery: while messages come, only one Poll in so many sees to the rest although somebody waits for it. The first after
	// a sleep does: it may have been the time that ended the sleep.
	restEvery = 4
)

// stirred tells that there is something to see to besides: transfers, messages that wait for a doorbell, peers to connect to or
// being connected to, grants that are due, messages to ourselves. What else asks for it sets calm to 0.
func (d *domain) stirred() bool {
	return d.moving.Load() != 0 || d.soiled.Load() || d.wants.Load() || len(d.calling) != 0 || len(d.owing) != 0 || d.loop.some()
}

// disarm takes what was told to who sleeps. The clock is looked at, since it may have been that.
func (d *domain) disarm() error {
	d.armed.Store(false)
	d.calm, d.due = 0, d.turn
	return d.sleeper.woken(d)
}

// look takes the completions of messages from the device, unless many messages wait for the caller.
func (d *domain) look() (int, error) {
	d.turn++
	if d.inbox.len() >= 2*len(d.wcs) {
		return 0, nil
	}
	n, err := d.rails[0].got.Poll(d.wcs[:])
	d.more = d.more || n == len(d.wcs)
	return n, err
}

// progress looks and sees to everything.
func (d *domain) progress() error {
	n, err := d.look()
	if err := d.take(n, err); err != nil {
		return err
	}
	return d.tend()
}

// take takes what look found into the events of the caller, as far as there is room, or into the inbox.
func (d *domain) take(n int, err error) error {
	for i := range d.wcs[:n] {
		d.arrived(&d.wcs[i])
	}
	if err != nil {
		return fmt.Errorf("fabric/rdma: %w", err)
	}
	return nil
}

// tend sees to the rest.
func (d *domain) tend() error {
	d.calm = calmPolls
	for _, r := range d.rails {
		if _, err := d.complete(r); err != nil {
			return err
		}
	}
	if err := d.office.read(d); err != nil {
		return err
	}
	if d.turn >= d.due {
		d.tick(d.clock())
	}
	if err := d.settle(); err != nil {
		return err
	}
	if owing := d.owing; len(owing) > 0 {
		d.owing = nil
		for _, e := range owing {
			if e.mute {
				d.notice(e, kindHello)
			} else if e.in.due() {
				d.notice(e, kindCredit)
			}
		}
	}
	if d.wants.Load() {
		d.connectWanted()
	}
	return nil
}

// arrived takes a message or a datagram.
func (d *domain) arrived(wc *verbs.WC) {
	r := d.rails[0]
	if wc.QPN == r.posted.Num() {
		d.calm = 0
		if d.office.arrived(d, wc); d.office.sick {
			d.next = 0
		}
		return
	}
	slot := uint32(wc.ID)
	e := d.byNum.find(r, wc.QPN)
	if e == nil || wc.Status != verbs.StatusSuccess {
		d.repost(slot)
		if e != nil {
			d.broke(e, wc.Err())
		}
		return
	}
	e.alive = true
	h, err := parseHeader(d.pool.slot(slot)[:wc.Len])
	if err == nil {
		err = e.in.take(&h)
	}
	if err == nil {
		err = e.out.allow(h.grant)
	}
	if err != nil {
		d.repost(slot)
		d.lose(e, fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, err))
		return
	}
	if e.hands.phase == phaseAnswered {
		e.hands.up(e.hands.other)
		d.stands(e)
		if e.in.due() {
			d.notice(e, kindCredit) // of what was given back since the answer
		}
	}
	final := e.parting && e.in.taken == e.final
	if h.kind == kindData {
		d.came(e, slot, wc.Len-headerBytes, h.hungry)
	} else {
		d.repost(slot)
	}
	if h.kind == kindBye || final {
		d.lose(e, fmt.Errorf("fabric/rdma: peer %d: %w", e.peer, fabric.ErrPeerClosed))
	}
}

// came takes a message of data.
func (d *domain) came(e *endpoint, slot, bytes uint32, hungry bool) {
	e.lentOut++
	if d.inbox.len() == 0 && d.filled < len(d.evs) && !e.deaf {
		d.lend(e, slot, bytes)
	} else {
		d.inbox.put(item{kind: fabric.Message, e: e, slot: slot, bytes: bytes})
	}
	if hungry {
		d.widen(e)
	}
}

// repost gives a slot back to the device.
func (d *domain) repost(slot uint32) {
	// The queue has room for every slot, and a device that is gone says so when it is polled.
	_ = d.rails[0].srq.Recv(uint64(slot), d.pool.sge(slot, d.pool.bytes))
}

// release ends all loans.
func (d *domain) release() {
	for _, l := range d.lent {
		d.freed(l.e, l.slot)
	}
	d.lent = d.lent[:0]
	d.loop.release()
}

// freed posts the slot of a message that was delivered, or is not going to be.
func (d *domain) freed(e *endpoint, slot uint32) {
	d.repost(slot)
	e.lentOut--
	if e.in.window == 0 {
		d.saved-- // the last that was set aside for a peer that has gone
		return
	}
	e.in.freed++
	if e.in.due() {
		d.notice(e, kindCredit)
	}
}

// save sets slots aside, and makes them if there are too few.
func (d *domain) save(n int) error {
	for d.saved+n > d.pool.total() {
		if err := d.pool.grow(); err != nil {
			return err
		}
		for _, slot := range d.pool.free {
			d.repost(slot)
		}
		d.pool.free = d.pool.free[:0]
	}
	d.saved += n
	return nil
}

// widen gives a peer a wider window, if the pool has room for it.
func (d *domain) widen(e *endpoint) {
	w := e.in.wider(uint32(d.set.Window))
	n := int(w - e.in.window)
	if n == 0 || d.saved+n > d.set.poolSlots() || d.save(n) != nil {
		return // it goes on with what it has
	}
	e.in.window = w
	if e.in.due() {
		d.notice(e, kindCredit)
	}
}

// deliver tells the caller what waits, as far as there is room.
func (d *domain) deliver() {
	if d.loop.some() {
		d.filled += d.loop.deliver(d.evs[d.filled:], int32(d.self))
	}
	for d.filled < len(d.evs) && d.inbox.len() > 0 {
		d.tell(d.inbox.take())
	}
}

// tell fills the next event, for which there is room, unless nothing is to be told any more.
func (d *domain) tell(it item) {
	if it.e.deaf && it.kind != fabric.Done {
		if it.kind == fabric.Message {
			d.freed(it.e, it.slot)
		}
		return
	}
	if it.kind == fabric.Message {
		d.lend(it.e, it.slot, it.bytes)
		return
	}
	ev := &d.evs[d.filled]
	d.filled++
	ev.Kind, ev.Peer, ev.Token, ev.Err = it.kind, int32(it.e.peer), it.token, it.err
}

// lend fills the next event, for which there is room, with a message.
func (d *domain) lend(e *endpoint, slot, bytes uint32) {
	ev := &d.evs[d.filled] // field by field: the others mean nothing for its kind, and clearing them costs
	d.filled++
	ev.Kind, ev.Peer, ev.Data = fabric.Message, int32(e.peer), d.pool.slot(slot)[headerBytes:][:bytes:bytes]
	d.lent = append(d.lent, loan{e, slot})
}

// ring tells the devices of what waits for a doorbell. Any goroutine may call it.
func (d *domain) ring() {
	for {
		d.mu.Lock()
		n := len(d.dirty)
		if n == 0 {
			d.soiled.Store(false)
			d.mu.Unlock()
			return
		}
		e := d.dirty[n-1]
		d.dirty[n-1] = nil
		d.dirty = d.dirty[:n-1]
		d.mu.Unlock()
		e.ring()
	}
}

// rest is how long a message may wait for a doorbell that serves others, too.
const rest = 50 * time.Microsecond

// soil notes that an endpoint has requests that the device was not told of, for the end of Poll or for remind. The caller holds
// the lock.
func (d *domain) soil(e *endpoint) {
	if !e.dirty {
		e.dirty = true
		d.dirty = append(d.dirty, e)
		d.soiled.Store(true)
	}
}

// remind has the device told after a while even if nobody polls. The caller holds the lock.
func (d *domain) remind() {
	if !d.belled {
		d.belled = true
		d.bell.Reset(rest)
	}
}

// rung is called by the timer.
func (d *domain) rung() {
	d.mu.Lock()
	d.belled = false
	d.mu.Unlock()
	d.ring()
}

// inbox is a queue of what has happened.
type inbox struct {
	items      []item // a power of two, or none
	head, tail uint32
}

type item struct {
	kind  fabric.EventKind
	e     *endpoint
	slot  uint32 // of a message, as bytes
	bytes uint32
	token uint64
	err   error
}

func (b *inbox) len() int { return int(b.tail - b.head) }

func (b *inbox) put(it item) {
	if b.len() == len(b.items) {
		items := make([]item, max(64, 2*len(b.items)))
		for i := range b.len() {
			items[i] = b.items[(b.head+uint32(i))%uint32(len(b.items))]
		}
		b.items, b.head, b.tail = items, 0, uint32(b.len())
	}
	b.items[b.tail%uint32(len(b.items))] = it
	b.tail++
}

func (b *inbox) take() item {
	p := &b.items[b.head%uint32(len(b.items))]
	it := *p
	*p = item{}
	b.head++
	return it
}
