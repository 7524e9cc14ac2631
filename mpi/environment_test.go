package mpi_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ibrun/ibrun/internal/alloctest"
	"github.com/ibrun/ibrun/internal/soaktest"
	"github.com/ibrun/ibrun/mpi"
	"github.com/ibrun/ibrun/mpi/internal/clocksync"
	"github.com/ibrun/ibrun/mpi/mpitest"
)

// predefinedKeys are the predefined keys by their numbers in the ABI.
var predefinedKeys = map[int]mpi.Keyval[int]{
	501: mpi.TagUB, 502: mpi.IO, 503: mpi.Host, 504: mpi.WtimeIsGlobal, 505: mpi.AppNum, 506: mpi.LastUsedCode,
	507: mpi.UniverseSize,
}

// values returns the predefined attributes of World by number. A launcher need not provide two of them.
func values(p *mpi.Process) (map[int]int, error) {
	got := map[int]int{}
	for n, k := range predefinedKeys {
		v, ok, err := k.Get(p.World())
		if err := errors.Join(err, check(k.Number() == n, "key %d is number %d", n, k.Number()),
			check(ok || n == 505 || n == 507, "key %d: no value", n)); err != nil {
			return nil, err
		}
		if ok {
			got[n] = v
		}
	}
	return got, nil
}

// agreed checks that an attribute of World is the same at all processes.
func agreed(k mpi.Keyval[int]) func(p *mpi.Process) error {
	return func(p *mpi.Process) error {
		v, ok, err := k.Get(p.World())
		if err := errors.Join(err, check(ok, "key %d: no value", k.Number())); err != nil {
			return err
		}
		least, most := []int{v}, []int{v}
		err = errors.Join(mpi.Allreduce(p.World(), least, least, mpi.Min), mpi.Allreduce(p.World(), most, most, mpi.Max))
		return errors.Join(err, check(least[0] == most[0], "key %d: from %d to %d", k.Number(), least[0], most[0]))
	}
}

func present(p *mpi.Process) error {
	_, err := values(p)
	return err
}

// refused tries to change every predefined attribute, on every communicator, in one way.
func refused(try func(k *mpi.Keyval[int], c *mpi.Comm) error) func(p *mpi.Process) error {
	return func(p *mpi.Process) error {
		before, err := values(p)
		errs := []error{err}
		for n, k := range predefinedKeys {
			for _, c := range []*mpi.Comm{p.World(), p.Self()} {
				mine := k
				errs = append(errs, ofClass(try(&mine, c), mpi.ErrKeyval), check(mine == k, "the variable of key %d has changed", n))
			}
		}
		after, err := values(p)
		return errors.Join(append(errs, err, check(fmt.Sprint(before) == fmt.Sprint(after), "%v became %v", before, after))...)
	}
}

var (
	deleted       = refused(func(k *mpi.Keyval[int], c *mpi.Comm) error { return k.Delete(c) })
	freed         = refused(func(k *mpi.Keyval[int], _ *mpi.Comm) error { return k.Free() })
	setPredefined = refused(func(k *mpi.Keyval[int], c *mpi.Comm) error { return k.Set(c, 7) })
)

func untouchable(p *mpi.Process) error { return errors.Join(deleted(p), freed(p), setPredefined(p)) }

// constant reads the attributes repeatedly, while the program uses MPI.
func constant(p *mpi.Process) error {
	before, err := values(p)
	errs := []error{err}
	same := func() {
		now, err := values(p)
		errs = append(errs, err, check(fmt.Sprint(now) == fmt.Sprint(before), "%v became %v", before, now))
	}
	w := p.World()
	x := make([]int, 1000)
	_, err = mpi.Sendrecv(w, x, (w.Rank()+1)%w.Size(), 1, slices.Clone(x), (w.Rank()+w.Size()-1)%w.Size(), 1)
	errs = append(errs, err)
	same()
	c, err := w.Dup()
	if err != nil {
		return err
	}
	same()
	errs = append(errs, c.Free())
	same()
	last := mpi.NewKeyval(p, nil, func(*mpi.Comm, int) error { // in Finalize
		now, err := values(p)
		return errors.Join(err, check(fmt.Sprint(now) == fmt.Sprint(before), "%v became %v in the end", before, now))
	})
	return errors.Join(append(errs, last.Set(p.Self(), 1), p.Finalize())...)
}

// tagBound uses the least and the greatest tag, and tags out of range. No tag may be truncated to 32 bits.
func tagBound(p *mpi.Process) error {
	w := p.World()
	bound, _, err := mpi.TagUB.Get(w)
	errs := []error{err, check(bound >= 32767 && bound == math.MaxInt32, "TAG_UB is %d", bound)}
	for _, c := range []*mpi.Comm{w, p.Self()} {
		to, from := (c.Rank()+1)%c.Size(), (c.Rank()+c.Size()-1)%c.Size()
		for _, tag := range []int{0, bound, 1} {
			x := []int{-1}
			st, err := mpi.Sendrecv(c, []int{tag}, to, tag, x, from, tag)
			errs = append(errs, err, check(x[0] == tag && st.Tag == tag, "tag %d: got %v, %v", tag, x, st))
		}
		const beyond32Bits = 1 << 33 // its lower 32 bits are a valid tag
		for _, tag := range []int{bound + 1, beyond32Bits, beyond32Bits + 1, beyond32Bits + mpi.AnyTag, -1, mpi.AnyTag, -3,
			-beyond32Bits, -beyond32Bits + mpi.AnyTag} {
			errs = append(errs, ofClass(mpi.Send(c, []int{1}, to, tag), mpi.ErrTag))
			if tag != mpi.AnyTag {
				_, err := mpi.Recv(c, []int{1}, from, tag)
				_, _, err2 := c.Iprobe(from, tag)
				errs = append(errs, ofClass(err, mpi.ErrTag), ofClass(err2, mpi.ErrTag))
			}
		}
	}
	return errors.Join(errs...)
}

// ioAll: all ranks are in this process, which offers I/O.
func ioAll(p *mpi.Process) error { return holds2(mpi.IO, p.World(), mpi.AnySource) }

// holds2 checks an attribute that may be negative.
func holds2(k mpi.Keyval[int], c *mpi.Comm, want int) error {
	v, ok, err := k.Get(c)
	return errors.Join(err, check(ok && v == want, "key %d: %d, %v, want %d", k.Number(), v, ok, want))
}

func hostless(p *mpi.Process) error {
	return errors.Join(holds2(mpi.Host, p.World(), mpi.ProcNull), agreed(mpi.Host)(p))
}

// global: ranks with one clock have no error, and WtimeIsGlobal is 1 on all. Those with different clocks report an error, and
// WtimeIsGlobal is 1 or absent: no rank has another value. Other communicators have the attribute as well.
func global(p *mpi.Process) error {
	d, err := p.World().Dup()
	if err != nil {
		return err
	}
	worst := []int64{int64(p.WtimeError())}
	err = mpi.Allreduce(d, worst, worst, mpi.Max)
	v, ok, err2 := mpi.WtimeIsGlobal.Get(p.World())
	errs := []error{err, err2, check(ok && v == 1 || !ok && worst[0] > 0, "%d, %v, with an error of %d ns", v, ok, worst[0]),
		check(p.Wtick() == 1e-9, "tick %v", p.Wtick())}
	if worst[0] == 0 {
		errs = append(errs, holds2(mpi.WtimeIsGlobal, d, 1))
	}
	return errors.Join(append(errs, d.Free())...)
}

// inOrder sends times between every two ranks, and checks that none arrives before it was sent. It returns the
// smallest difference in seconds.
func inOrder(p *mpi.Process, messages int) (closest float64, err error) {
	w := p.World()
	closest = math.Inf(1)
	for a := range w.Size() {
		for b := range w.Size() {
			for range messages {
				switch {
				case a == b:
				case w.Rank() == a:
					err = mpi.Send(w, []float64{p.Wtime()}, b, 1)
				case w.Rank() == b:
					x := []float64{0}
					_, err = mpi.Recv(w, x, a, 1)
					took := p.Wtime() - x[0]
					closest = min(closest, took)
					err = errors.Join(err, check(took > 0, "from rank %d, sent at %.9f and received %.0f ns later", a, x[0], took*1e9))
				}
				if err != nil {
					return closest, err
				}
			}
		}
	}
	return closest, nil
}

// oneClock reports whether all ranks have WtimeIsGlobal. All ranks must call it.
func oneClock(p *mpi.Process) (bool, error) {
	_, ok, err := mpi.WtimeIsGlobal.Get(p.World())
	all := []int{0}
	if ok {
		all[0] = 1
	}
	err = errors.Join(err, mpi.Allreduce(p.World(), all, all, mpi.Min))
	return all[0] == 1, err
}

func ordered(p *mpi.Process) error {
	if one, err := oneClock(p); !one || err != nil {
		return err // global checks that there is a reason
	}
	_, err := inOrder(p, 300)
	return err
}

// crossed: readings between two barriers, at any two ranks, differ by less than the time that the whole took.
func crossed(p *mpi.Process) error {
	if one, err := oneClock(p); !one || err != nil {
		return err
	}
	for range 20 {
		before := p.Wtime()
		if err := p.World().Barrier(); err != nil {
			return err
		}
		x := []float64{before, -p.Wtime()}
		if err := mpi.Allreduce(p.World(), x, x, mpi.Max); err != nil {
			return err
		}
		// The last to come came before the first left, by any clock.
		if x[0] >= -x[1] {
			return fmt.Errorf("a rank came to the barrier at %.9f, one left it at %.9f", x[0], -x[1])
		}
	}
	return nil
}

func named(p *mpi.Process) error {
	a, err := p.ProcessorName()
	if runtime.GOOS != "linux" {
		return check(errors.Is(err, errors.ErrUnsupported), "%q, %v", a, err)
	}
	if err != nil {
		return err
	}
	host, id, ok := strings.Cut(a[max(0, strings.LastIndexByte(a, '-')-1):], "-")
	errs := []error{check(ok && host != "" && len(id) == 8 && strings.Trim(id, "0123456789abcdef") == "" &&
		len(a) <= mpi.MaxProcessorName && !strings.ContainsRune(a, 0), "the name is %q", a)}
	all := make([]byte, p.World().Size()*mpi.MaxProcessorName)
	one := make([]byte, mpi.MaxProcessorName)
	copy(one, a)
	errs = append(errs, mpi.Allgather(p.World(), all, one))
	for other := range slices.Chunk(all, len(one)) {
		same := strings.Contains(string(other), "-"+id+"\x00") // the same kernel
		errs = append(errs, check(same == slices.Equal(other, one), "%q and %q on one machine", a, other))
	}
	return errors.Join(errs...)
}

// codes: the last code used is that of the standard at first, and then of the user.
func errorCodes(p *mpi.Process) error {
	const none = mpi.Class(77)
	first := int(mpi.ErrLastCode)
	errs := []error{holds2(mpi.LastUsedCode, p.World(), first)}
	class := p.AddErrorClass()
	errs = append(errs, holds2(mpi.LastUsedCode, p.World(), first+1), check(int(class) == first+1, "class %d", class))
	code, err := p.AddErrorCode(class)
	errs = append(errs, err, holds2(mpi.LastUsedCode, p.World(), first+2), check(int(code) == first+2, "code %d", code))
	other, err := p.AddErrorCode(mpi.ErrTag)
	errs = append(errs, err, p.AddErrorString(code, "out of paper"))
	for n, want := range map[mpi.Class]struct {
		class mpi.Class
		text  string
	}{class: {class, ""}, code: {class, "out of paper"}, other: {mpi.ErrTag, ""}, mpi.ErrTag: {mpi.ErrTag, mpi.ErrTag.Error()}} {
		of, err := p.ErrorClass(n)
		text, err2 := p.ErrorString(n)
		errs = append(errs, err, err2, check(of == want.class && text == want.text, "%d is of class %d, %q", n, of, text))
	}
	_, err = p.AddErrorCode(none)
	_, err2 := p.AddErrorCode(code)
	_, err3 := p.ErrorClass(other + 1)
	_, err4 := p.ErrorString(none)
	for _, err := range []error{err, err2, err3, err4, p.AddErrorString(mpi.ErrTag, "mine"), p.AddErrorString(other+1, ""),
		p.AddErrorString(code, strings.Repeat("x", mpi.MaxErrorString+1))} {
		errs = append(errs, ofClass(err, mpi.ErrArg))
	}
	return errors.Join(errs...)
}

// unlaunched: these ranks have no launcher that could provide the attributes.
func unlaunched(p *mpi.Process) error {
	_, program, err := mpi.AppNum.Get(p.World())
	_, universe, err2 := mpi.UniverseSize.Get(p.World())
	return errors.Join(err, err2, check(!program && !universe, "present without a launcher"))
}

// TestEnvironment: those that need processes or machines of their own are in the other files.
func TestEnvironment(t *testing.T) {
	statements(t, map[string]func(p *mpi.Process) error{
		"S0-01": present, "S0-02": present, "S1-01": present, "S1-03": present,
		"S0-03": deleted, "S0-04": freed, "S0-05": setPredefined, "S1-02": untouchable,
		"S0-10": tagBound, "S0-11": tagBound, "S0-13": tagBound, "S1-07": tagBound, "S0-14": tagBound,
		"S0-18": agreed(mpi.TagUB), "S1-08": agreed(mpi.TagUB),
		"S0-20": ioAll, "S0-22": ioAll, "S0-23": ioAll,
		"S1-09": hostless, "S1-11": hostless, "S0-K1": hostless,
		"S0-30": global, "S0-35": global, "S0-37": global, "S1-15": global, "S1-16": global, "S0-31": global, "S0-36": global,
		"S0-34": global,
		"S0-32": crossed, "S0-33": ordered,
		"S0-41": named, "S0-42": named, "S0-43": named, "S1-18": named,
		"S0-K4": errorCodes, "S0-K2/none": unlaunched, "S0-K3/none": unlaunched,
	})
}

// TestConstant: what is constant stays so whatever happens.
func TestConstant(t *testing.T) {
	t.Attr("changes", "messages, communicators, Finalize")
	statements(t, map[string]func(p *mpi.Process) error{"S0-06": constant, "S0-12": constant, "S1-05": constant})
}

// TestMachines: the statements about one machine also hold for several; the ranks may be on two.
func TestMachines(t *testing.T) {
	all := map[string]func(p *mpi.Process) error{
		"S0-32": crossed, "S0-33": ordered, "S0-41": named, "S1-08": agreed(mpi.TagUB), "S1-16": global,
	}
	for _, id := range slices.Sorted(maps.Keys(all)) { // the same order in all programs
		t.Run(id, func(t *testing.T) { mpitest.Run(t, 4, all[id]) })
	}
}

// skewed gives ranks the clocks of three machines, of which the second has two ranks.
func skewed(rank int) (time.Duration, float64) {
	return [...]time.Duration{0, time.Hour, time.Hour, -time.Minute}[rank], [...]float64{0, 40e-6, 40e-6, -15e-6}[rank]
}

// TestCommonClock: ranks with different clocks have one Wtime. Its error depends on the load of the machine, and WtimeError
// must cover it.
func TestCommonClock(t *testing.T) {
	truth, err := clocksync.Local()
	if err != nil {
		t.Fatal(err)
	}
	t.Run("S0-31", func(t *testing.T) {
		var mu sync.Mutex
		mpitest.RunWith(t, 4, mpitest.Options{Skew: skewed}, func(p *mpi.Process) error {
			var errs []error
			me := p.World().Rank()
			errs = append(errs, check((p.WtimeError() == 0) == (me == 0), "rank %d has an error of %v", me, p.WtimeError()))
			last, worst, present := 0.0, 0.0, 0
			turns := soaktest.Choose(400, 100)
			for range turns {
				from, got, to := float64(truth.Now())/1e9, p.Wtime(), float64(truth.Now())/1e9
				errs = append(errs, check(got >= last, "from %.9f back to %.9f", last, got))
				_, ok, err := mpi.WtimeIsGlobal.Get(p.World())
				if errs = append(errs, err); ok {
					present++
				}
				off := max(from-got, got-to)
				errs = append(errs, check(off < max(10e-3, 2*p.WtimeError().Seconds()), "rank %d is off by %v s", me, off))
				last, worst = got, max(worst, off)
				time.Sleep(time.Millisecond)
			}
			if me == 1 || me == 2 { // one machine
				for range 100 {
					sent := []float64{0}
					_, err := mpi.Sendrecv(p.World(), []float64{p.Wtime()}, 3-me, 1, sent, 3-me, 1)
					errs = append(errs, err, check(sent[0] < p.Wtime(), "received before it was sent"))
				}
			}
			mu.Lock()
			defer mu.Unlock()
			t.Logf("rank %d: global at %d of %d times, at most %v off, in fact %.0f ns", me, present, turns, p.WtimeError(), worst*1e9)
			return errors.Join(errs...)
		})
	})
}

// TestAttrAllocsPredefined: reading predefined attributes does not allocate.
func TestAttrAllocsPredefined(t *testing.T) {
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		n := alloctest.Count(100, func() {
			for _, k := range []mpi.Keyval[int]{mpi.TagUB, mpi.IO, mpi.WtimeIsGlobal, mpi.UniverseSize} {
				_, _, _ = k.Get(p.World())
			}
		})
		return check(n == 0, "%v allocations", n)
	})
}

func BenchmarkPredefined(b *testing.B) {
	mpitest.Run(b, 1, func(p *mpi.Process) error {
		for b.Loop() {
			_, _, _ = mpi.TagUB.Get(p.World())
		}
		return nil
	})
}

// bsendOverhead is a constant.
var bsendOverhead [mpi.BsendOverhead]byte

func TestBsendOverhead(t *testing.T) {
	t.Run("S1-20", func(t *testing.T) {
		if len(bsendOverhead) != mpi.BsendOverhead {
			t.Error(len(bsendOverhead))
		}
	})
	t.Run("S1-19", TestBuffered)
}

func TestVersion(t *testing.T) {
	if v := mpi.LibraryVersion(); !strings.HasPrefix(v, "ibrun ") || len(v) < 8 || mpi.Version != 5 || mpi.Subversion != 0 {
		t.Errorf("%q, %d.%d", v, mpi.Version, mpi.Subversion)
	}
	mpitest.Run(t, 1, func(p *mpi.Process) error {
		before := p.Finalized()
		return errors.Join(p.Finalize(), check(!before && p.Finalized(), "finalized: %v, then %v", before, p.Finalized()))
	})
}

// sessionBound checks TagUB on a communicator that all processes of a group create from it, and on an
// intercommunicator of these and the other processes, outside of the World Model.
func sessionBound(p *mpi.Process, s *mpi.Session) error {
	all, err := s.Group("mpi://WORLD")
	if err != nil {
		return err
	}
	c, err := mpi.CommFromGroup(all, "all", nil)
	if err != nil {
		return err
	}
	bound := func(c *mpi.Comm) int {
		v, ok, err := mpi.TagUB.Get(c)
		if err != nil || !ok || c == nil {
			return -1
		}
		return v
	}
	errs := []error{check(p.World() == nil, "there is a World")}
	found := []int{bound(c), -bound(c)}
	if all.Size() > 1 {
		first, err := all.Incl(0)
		rest, err2 := all.Excl(0)
		if err := errors.Join(err, err2); err != nil {
			return err
		}
		if all.Rank() != 0 {
			first, rest = rest, first
		}
		between, err := mpi.IntercommFromGroups(first, rest, "between", nil)
		if err != nil {
			return err
		}
		found = append(found, bound(between), -bound(between))
		defer func() { _ = between.Free() }() // a failure of this shows in the session's Close
	}
	errs = append(errs, mpi.Allreduce(c, found, found, mpi.Min))
	for i := range found {
		errs = append(errs, check(found[i] == []int{math.MaxInt32, -math.MaxInt32}[i%2], "least and most bounds %v", found))
	}
	_, ok, err := mpi.IO.Get(c)
	return errors.Join(append(errs, err, check(!ok, "IO without a World"), c.Free())...)
}

func TestSessionTagBound(t *testing.T) {
	sessions(t, map[string]func(p *mpi.Process, s *mpi.Session) error{
		"S0-15": sessionBound, "S0-16": sessionBound, "S0-17": sessionBound,
	})
}
