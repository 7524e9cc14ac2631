package mpi

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
	"github.com/ibrun/ibrun/mpi/internal/coll"
	"github.com/ibrun/ibrun/mpi/internal/datatype"
)

// What every process says of itself as it joins, in numbers: these and its host's name.
const (
	ofClock  = iota // which source it has
	ofKernel        // which kernel
	ofHost          // which host name
	aboutAll
	hostName = aboutAll
	aboutOne = aboutAll + maxHost/8
)

// maxHost is the longest host name that is told, a multiple of 8: the longest that Linux has.
const maxHost = 64

// environment is what a process has found out as it joined.
type environment struct {
	boot string // name of the kernel; "" where there is none
	host string // of this process
	node string // host name that all processes of the kernel use
	io   int    // what IO says
}

// meet lets the processes find out what they have in common, over a communicator that ends with it, and is not worth
// sharing memory for. ctx bounds the wait.
func (p *Process) meet(ctx context.Context, op string) error {
	stop := context.AfterFunc(ctx, func() { p.e.Abort(context.Cause(ctx)) })
	defer stop()
	all := make([]int32, p.place.Size)
	for i := range all {
		all[i] = int32(i)
	}
	c := p.draft(all, p.place.Rank)
	c.freeing.Store(true) // a process that has all it needs may leave
	c.open(meetingID << 1)
	return errors.Join(p.compare(c), c.shut(op))
}

// compare finds out whether all processes say the same of themselves. If not, they say more.
func (p *Process) compare(c *Comm) (err error) {
	v := &p.env
	if err := p.keep.init(p.place.Clock, p.e); err != nil {
		return err
	}
	if v.host, err = os.Hostname(); err != nil {
		return err
	}
	v.node = v.host
	if v.boot, err = hw.BootID(); err != nil && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mine := [aboutAll]uint64{p.keep.clock.Source().ID, clocksync.Hash(v.boot), clocksync.Hash(v.host)}
	if alike, err := p.survey(c, mine, probeIO() == nil); err != nil || alike {
		p.keep.global = true
		return err
	}
	all, err := p.introduce(c, mine)
	if err != nil {
		return err
	}
	kernel := slices.IndexFunc(all, func(x [aboutOne]uint64) bool { return x[ofKernel] == mine[ofKernel] })
	v.node = nameOf(all[kernel])
	p.keep.fit.Alike = kernel == 0 && v.boot != "" && p.place.Clock.Now == nil
	clocks := make([]uint64, len(all))
	for i, x := range all {
		clocks[i] = x[ofClock]
	}
	return p.synchronise(c, clocks)
}

// survey finds out who offers I/O, and whether all processes say the same of themselves.
func (p *Process) survey(c *Comm, mine [aboutAll]uint64, able bool) (alike bool, err error) {
	self, n := p.place.Rank, p.place.Size
	first, every := n, uint8(0)
	if able {
		first, every = self, 1
	}
	said := []uint64{uint64(first), uint64(every)}
	for _, x := range mine {
		said = append(said, x, ^x) // the least of both is the least and the most
	}
	if n > 1 {
		least, commutative, _ := Min.kernel(datatype.Uint64)
		op := coll.Operation{Kernel: least, ElemSize: 8, Commutative: commutative}
		if err := coll.Allreduce(&c.group, bytesOf(said), slices.Clone(bytesOf(said)), &op); err != nil {
			return false, err
		}
	}
	p.env.io = whoOffersIO(self, n, int(said[0]), able, said[1] == 1)
	alike = true
	for i := range mine {
		alike = alike && said[2+2*i] == ^said[3+2*i]
	}
	return alike, nil
}

// introduce tells everybody what every process says of itself.
func (p *Process) introduce(c *Comm, mine [aboutAll]uint64) ([][aboutOne]uint64, error) {
	var me [aboutOne]uint64
	copy(me[:], mine[:])
	var name [maxHost]byte
	copy(name[:], p.env.host)
	for i := range maxHost / 8 {
		me[hostName+i] = binary.LittleEndian.Uint64(name[8*i:])
	}
	flat := make([]uint64, p.place.Size*aboutOne)
	if err := coll.Allgather(&c.group, bytesOf(flat), bytesOf(me[:])); err != nil {
		return nil, err
	}
	var all [][aboutOne]uint64
	for x := range slices.Chunk(flat, aboutOne) {
		all = append(all, [aboutOne]uint64(x))
	}
	return all, nil
}

// nameOf is the host name that a process has told.
func nameOf(x [aboutOne]uint64) string {
	var name [maxHost]byte
	for i := range maxHost / 8 {
		binary.LittleEndian.PutUint64(name[8*i:], x[hostName+i])
	}
	return string(bytes.TrimRight(name[:], "\x00"))
}

// What a leader has found out: the words of a bend, and these. Cycles are counted from when rank 0 says.
const (
	residual    = 4 // word of the bend
	roundTrip   = 5
	cyclesBegin = 6
	aboutClock  = 7
)

// synchronise starts the clocks. clocks says which source each process has.
func (p *Process) synchronise(c *Comm, clocks []uint64) error {
	k, self := &p.keep, p.place.Rank
	k.leader = slices.Index(clocks, clocks[self])
	switch {
	case slices.Max(clocks) == slices.Min(clocks):
		k.global = true
		return nil
	case self == 0:
		k.part = reference
	case k.leader == 0: // and stay a bystander
	case k.leader != self:
		k.part = follower
	default:
		k.part = leader
		for rank, id := range clocks {
			if id == clocks[self] && rank != self {
				k.follow = append(k.follow, rank)
			}
		}
		if err := k.begin(); err != nil {
			return err
		}
	}
	var mine [aboutClock]uint64
	if k.part == leader {
		b := k.fit.Bend(0).Words()
		copy(mine[:], b[:])
		mine[roundTrip] = uint64(k.fit.RoundTrip())
	}
	mine[cyclesBegin] = uint64(k.clock.Now()) // that of rank 0 counts
	all := make([]uint64, len(clocks)*aboutClock)
	if err := coll.Allgather(&c.group, bytesOf(all), bytesOf(mine[:])); err != nil {
		return err
	}
	if k.part == leader || k.part == follower {
		b, ok := clocksync.BendOf([5]uint64(all[k.leader*aboutClock:]))
		if !ok {
			return fmt.Errorf("%w: rank %d has no time", fabric.ErrCorrupt, k.leader)
		}
		k.clock.Start(b)
		k.fit.Clock = &k.clock
	}
	k.began = int64(all[cyclesBegin])
	k.global = together(all)
	// Nobody goes on, and corrects the clocks of others, before all have started theirs.
	return coll.Barrier(&c.group)
}

// together tells whether no two clocks are apart by more than half of the fastest round trip, as far as is known.
func together(all []uint64) bool {
	var wrong []uint64
	fastest := uint64(math.MaxUint64)
	for x := range slices.Chunk(all, aboutClock) {
		if x[roundTrip] != 0 { // it leads
			wrong = append(wrong, x[residual])
			fastest = min(fastest, x[roundTrip])
		}
	}
	slices.Sort(wrong)
	apart := wrong[len(wrong)-1]
	if len(wrong) > 1 {
		apart += wrong[len(wrong)-2]
	}
	return apart < fastest/2
}
