package rdma

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/verbs"
)

// linger is how long Close waits for peers to acknowledge what was sent.
const linger = 2 * time.Second

// retries is how often a device sends again what is not acknowledged: for ever with Soft-RoCE, so that it is the heart that
// misses a peer; half a second and more with others, after which the connection is made again.
const retries = 7

// mostSlots is how many slots may be posted: two for every peer, and what windows may take besides.
func mostSlots(set *Settings, size int) int {
	return min(max(2*size+set.poolSlots(), 2*blockSlots)+blockSlots, 1<<14)
}

func open(t *Transport, cfg *fabric.Config, set Settings) (_ fabric.Domain, err error) {
	var nonce [8]byte
	rand.Read(nonce[:]) // does not fail
	d := &domain{
		key: t.Key, self: cfg.Self, size: cfg.Size, incarnation: binary.LittleEndian.Uint64(nonce[:]) | 1, set: set,
		ways: make([]*endpoint, cfg.Size), byNum: numbers{all: map[railNum]*endpoint{}}, next: never, began: time.Now(),
	}
	d.params = verbs.DefaultParams()
	d.params.RetryCount = retries
	d.bell = time.AfterFunc(never, d.rung)
	defer func() {
		if err != nil {
			err = errors.Join(err, d.free())
		}
	}()
	for i, name := range set.Devices {
		r, err := t.openRail(i, name, mostSlots(&set, cfg.Size))
		if err != nil {
			return nil, fmt.Errorf("fabric/rdma: %w", err)
		}
		if set.Piece != 0 {
			r.piece = set.Piece
		}
		d.rails = append(d.rails, r)
	}
	d.under = make([]int, len(d.rails))
	if d.sleeper, err = newSleeper(d.rails); err != nil {
		return nil, err
	}
	pd := d.rails[0].pd
	d.pool = slots{pd: pd, bytes: set.Slot, limit: mostSlots(&set, cfg.Size) &^ (blockSlots - 1)}
	d.sends = slots{pd: pd, bytes: set.Slot, limit: max(set.poolSlots(), 2*blockSlots)}
	if err := errors.Join(d.sends.grow(), d.office.open(d.rails[0])); err != nil {
		return nil, fmt.Errorf("fabric/rdma: %w", err)
	}
	d.regions = regions{incarnation: d.incarnation, register: d.register, index: map[span]uint32{}}
	if len(d.rails) > 1 {
		if err := d.openKeys(pd); err != nil {
			return nil, fmt.Errorf("fabric/rdma: %w", err)
		}
	}
	d.caps = set.Caps()
	d.loop.bytes = d.caps.MaxSend
	mine := address{incarnation: d.incarnation}
	for _, r := range d.rails {
		mine.rails = append(mine.rails, r.address)
	}
	d.addr = mine.append(nil)
	return d, nil
}

// scraps is how many rows of peers' tables can be read at the same time.
const scraps = 256

// openKeys makes the table of keys, and where those of peers are read to.
func (d *domain) openKeys(pd *verbs.PD) (err error) {
	if d.regions.rows, err = mapMemory(mostRows * rowBytes); err != nil {
		return err
	}
	mr, err := pd.Register(d.regions.rows, verbs.RemoteRead)
	if err != nil {
		return err
	}
	at := mr.Remote(0)
	d.keys = keyTable{at.Addr, at.RKey}
	if d.scrapMem, err = mapMemory(scraps * rowBytes); err != nil {
		return err
	}
	for i := range uint32(scraps) {
		d.scraps = append(d.scraps, i)
	}
	d.scrapMR, err = pd.Register(d.scrapMem, verbs.LocalWrite)
	return err
}

// Settings are those that are in force, with the devices that were chosen. Callers find the method by type assertion.
func (d *domain) Settings() Settings {
	s := d.set
	s.Piece = d.rails[0].piece
	return s
}

// register registers memory with every rail.
func (d *domain) register(b []byte) (reg registration, err error) {
	for i, r := range d.rails {
		mr, err := r.pd.Register(b, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite)
		if err != nil {
			return registration{}, errors.Join(err, reg.close())
		}
		reg.mrs[i], reg.keys[i] = mr, memoryKeys{mr.LKey(), mr.RKey()}
	}
	return reg, nil
}

// Arm has the rails tell of what comes next. Those of them that tell of what was sent are asked only if somebody waits for
// that. What other goroutines begin from now on wakes who sleeps.
func (d *domain) Arm() (int, bool, error) {
	if d.shut {
		return -1, false, errShut.err
	}
	if d.armed.Load() {
		if err := d.disarm(); err != nil {
			return -1, false, err
		}
	}
	d.release()
	d.ring()
	d.room, d.more, d.filled = false, false, 0
	d.armed.Store(true)
	if err := d.notify(); err != nil {
		return -1, false, err
	}
	if err := d.progress(); err != nil {
		return -1, false, err
	}
	d.ring()
	late := d.unheard()
	choked := d.choked
	d.choked = false
	if d.inbox.len() > 0 || d.loop.some() || choked && d.room || d.more || late {
		return d.sleeper.bed, true, nil
	}
	return d.sleeper.bed, false, d.sleeper.set(time.Since(d.began), d.next)
}

// notify asks the rails for an event at the next completion.
func (d *domain) notify() error {
	waits := d.waits()
	for _, r := range d.rails {
		if r.got != nil && !r.alert {
			if err := r.got.Notify(false); err != nil {
				return fmt.Errorf("fabric/rdma: %w", err)
			}
			r.alert = true
		}
		if waits && !r.notified {
			if err := r.sent.Notify(false); err != nil {
				return fmt.Errorf("fabric/rdma: %w", err)
			}
			r.notified = true
		}
	}
	return nil
}

// waits tells whether somebody waits for what was sent to be done.
func (d *domain) waits() bool {
	return d.moving.Load() > 0 || d.choked || len(d.owing) > 0
}

// unheard tells whether somebody does for whom a rail was not asked: it began while the domain was being armed.
func (d *domain) unheard() bool {
	return d.waits() && slices.ContainsFunc(d.rails, func(r *rail) bool { return !r.notified })
}

func (d *domain) Close() error {
	if d.shut {
		return nil
	}
	d.shut = true
	for _, e := range d.ways {
		if e == nil {
			continue
		}
		if e.ended.CompareAndSwap(nil, &errShut) {
			e.deaf = true
			if e.hands.phase == phaseUp || e.hands.phase == phaseAnswered {
				d.notice(e, kindBye)
			} else if e.hands.phase == phaseAsking {
				d.say(e, saidBye, pair{})
			}
		}
	}
	err := d.finish()
	return errors.Join(err, d.free())
}

// finish waits until the peers have got what was sent, and our goodbye.
func (d *domain) finish() error {
	d.loop.clear()
	for end := time.Now().Add(linger); ; {
		waits := false
		for _, e := range d.ways {
			waits = waits || e != nil && (e.bye == byeDue || e.bye == byeSent)
		}
		if !waits || time.Now().After(end) {
			break
		}
		d.release()
		if err := d.progress(); err != nil {
			if errors.Is(err, verbs.ErrDeviceLost) {
				return nil
			}
			return err
		}
		for d.inbox.len() > 0 {
			if it := d.inbox.take(); it.kind == fabric.Message {
				d.freed(it.e, it.slot)
			}
		}
		d.ring()
		runtime.Gosched()
	}
	for _, e := range d.ways {
		if e != nil && (e.bye == byeDue || e.bye == byeSent) {
			d.say(e, saidBye, pair{})
		}
	}
	return nil
}

// free closes the devices and frees the memory.
func (d *domain) free() error {
	var errs []error
	d.bell.Stop()
	if d.sleeper != nil {
		errs = append(errs, d.sleeper.close())
	}
	for _, r := range d.rails {
		if err := r.dev.Close(); err != nil && !errors.Is(err, verbs.ErrDeviceLost) {
			errs = append(errs, fmt.Errorf("fabric/rdma: %w", err))
		}
	}
	d.pool.unmap()
	d.sends.unmap()
	for _, mem := range []*[]byte{&d.office.mem, &d.regions.rows, &d.scrapMem} {
		if *mem != nil {
			unmapMemory(*mem)
			*mem = nil
		}
	}
	return errors.Join(errs...)
}
