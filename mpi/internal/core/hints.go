package core

import (
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/mpi/internal/protocols"
	"github.com/ibrun/ibrun/perf"
)

// The keys of hints for communicators. docs/hints.md describes each of them.
const (
	hintNoAnyTag    = "mpi_assert_no_any_tag"
	hintNoAnySource = "mpi_assert_no_any_source"
	hintExact       = "mpi_assert_exact_length"
	hintOvertaking  = "mpi_assert_allow_overtaking"
	hintStrict      = "mpi_assert_strict_persistent_collective_ordering"
	hintKinds       = "mpi_assert_memory_alloc_kinds"
	hintEager       = "ibrun_eager"
	hintProtocol    = "ibrun_protocol"
	hintRail        = "ibrun_rail"
	hintDevice      = "ibrun_device"
	// hintDeterministic makes the results of reductions depend on the data, its length and the
	// number of ranks only.
	hintDeterministic = "ibrun_deterministic"
)

// hintAuto is the value of hints that let the library choose.
const hintAuto = "auto"

// hints are the hints of a communicator. newHints returns the defaults; the zero value does not
// contain them.
type hints struct {
	noAnyTag, noAnySource bool
	exact, overtaking     bool
	strict, deterministic bool
	kinds                 string // empty: not set
	eager                 int    // bytes; -1: auto
	protocol              string // as tunables.ParseProtocol takes it
	rail                  int    // index in Engine.Rails; -1: auto

	agreements uint32 // number of agreements on hints so far
	epoch      uint32 // number of the last agreement if any rank asserts exact lengths; otherwise 0
}

func newHints() hints { return hints{eager: -1, protocol: hintAuto, rail: -1} }

// flags returns the hints that are true or false, by their keys in the order in which toInfo lists
// them.
func (h *hints) flags() iter.Seq2[string, *bool] {
	return func(yield func(string, *bool) bool) {
		_ = yield(hintNoAnyTag, &h.noAnyTag) && yield(hintNoAnySource, &h.noAnySource) && yield(hintExact, &h.exact) &&
			yield(hintOvertaking, &h.overtaking) && yield(hintStrict, &h.strict) && yield(hintDeterministic, &h.deterministic)
	}
}

// withInfo returns h changed by the hints in an info. rails are the names of the rails. Unknown
// keys and invalid values change nothing.
func (h hints) withInfo(i *Info, rails []string) hints {
	for key, flag := range h.flags() {
		switch v, _ := i.Get(key); v {
		case "true":
			*flag = true
		case "false":
			*flag = false
		}
	}
	if v, ok := i.Get(hintKinds); ok && supportedMemoryKinds(v) {
		h.kinds = v
	}
	if v, ok := i.Get(hintEager); ok {
		if n, err := strconv.ParseUint(v, 10, 47); err == nil {
			h.eager = int(n)
		} else if v == hintAuto {
			h.eager = -1
		}
	}
	if v, ok := i.Get(hintProtocol); ok {
		if _, err := tunables.ParseProtocol(v); err == nil {
			h.protocol = v
		}
	}
	h.rail = chooseRail(i, rails, h.rail)
	return h
}

// railsOf returns the names of the engine's rails. It returns nil if there is no communicator,
// which the caller rejects later.
func railsOf(c *Comm) []string {
	if c.isNone() {
		return nil
	}
	return c.engine.Rails()
}

// chooseRail returns the rail that an info selects by the name of a device, with or without the
// port, or else by number. -1 lets the library choose. Without a valid selection it returns before.
func chooseRail(i *Info, rails []string, before int) int {
	device, _ := i.Get(hintDevice)
	number, _ := i.Get(hintRail)
	n := slices.IndexFunc(rails, func(name string) bool { return name == device || strings.HasPrefix(name, device+":") })
	if n >= 0 && device != "" {
		return n
	}
	if n, err := strconv.Atoi(number); err == nil && n >= 0 && n < len(rails) {
		return n
	}
	if device == hintAuto || number == hintAuto {
		return -1
	}
	return before
}

// supportedMemoryKinds reports whether buffers may be of all memory kinds in a list: Go's own
// memory, other memory of the system, and memory from Alloc.
func supportedMemoryKinds(list string) bool {
	for kind := range strings.SplitSeq(list, ",") {
		if !slices.Contains([]string{"system", "mpi", "mpi:alloc_mem"}, kind) {
			return false
		}
	}
	return true
}

// toInfo returns a new Info with the values of all hints. Without rails it omits the keys for
// rails.
func (h *hints) toInfo(rails []string) *Info {
	i := &Info{}
	set := func(key, value string) { _ = i.Set(key, value) } // both are within the limits
	for key, flag := range h.flags() {
		set(key, strconv.FormatBool(*flag))
	}
	if h.kinds != "" {
		set(hintKinds, h.kinds)
	}
	eager := hintAuto
	if h.eager >= 0 {
		eager = strconv.Itoa(h.eager)
	}
	set(hintEager, eager)
	set(hintProtocol, h.protocol)
	if len(rails) > 0 {
		rail, device := hintAuto, hintAuto
		if h.rail >= 0 {
			rail, device = strconv.Itoa(h.rail), rails[h.rail]
		}
		set(hintRail, rail)
		set(hintDevice, device)
	}
	return i
}

var (
	errStrictDiffers        = errors.New(hintStrict + " must be the same at all ranks")
	errDeterministicDiffers = errors.New(hintDeterministic + " must be the same at all ranks")
)

// agreeHints agrees with all ranks on hints before they take effect. If a hint that must be the
// same everywhere is not, it returns an error at every rank.
func (a *agreement) agreeHints(h hints) (hints, error) {
	// Each rank sets the bits of what it asks for, and the bits that all ranks set remain. Of two
	// bits for one choice neither remains if the ranks differ.
	const strict, loose, inexact, deterministic, fastest = 1, 2, 4, 8, 16
	mine := uint8(loose)
	if h.strict {
		mine = strict
	}
	if h.deterministic {
		mine |= deterministic
	} else {
		mine |= fastest
	}
	if !h.exact {
		mine |= inexact
	}
	all, err := a.andBits(mine)
	if err != nil {
		return h, err
	}
	if all&(strict|loose) == 0 {
		return h, a.comm.newError(a.op, ErrInfoValue, errStrictDiffers)
	}
	if all&(deterministic|fastest) == 0 {
		return h, a.comm.newError(a.op, ErrInfoValue, errDeterministicDiffers)
	}
	h.agreements++
	h.epoch = 0
	if all&inexact == 0 {
		h.epoch = h.agreements%(1<<proto.EpochBits-1) + 1
	}
	return h, nil
}

// forcedProtocol returns a protocol as the engine of a rank takes it. Ranks draw different
// protocols.
func forcedProtocol(f *tunables.ForcedProtocol, rank int) *protocols.Forced {
	switch {
	case f == nil:
		return nil
	case f.Random:
		return &protocols.Forced{Random: rand.New(rand.NewPCG(f.Seed, uint64(rank)))}
	}
	return &protocols.Forced{Protocol: protocols.Protocol(f.Protocol)}
}

// currentHints are the hints of a communicator that are in force.
type currentHints struct {
	mu    sync.Mutex // held while the engine takes the hints
	hints hints
}

// apply makes hints of c take effect.
func (x *currentHints) apply(c *Comm, h hints) {
	forced, _ := tunables.ParseProtocol(h.protocol) // withInfo has checked it
	// The engine refuses assertions that a receive in progress violates. The lock keeps what it has
	// taken and what GetInfo returns the same.
	x.mu.Lock()
	defer x.mu.Unlock()
	taken := c.engine.Contexts().SetHints(c.contextID, proto.Hints{
		NoAnySource: h.noAnySource, NoAnyTag: h.noAnyTag, ExactLength: h.exact, Epoch: h.epoch, AllowOvertaking: h.overtaking,
		EagerLimit: h.eager, Forced: forcedProtocol(forced, c.proc.boot.Rank), Rail: h.rail, Peers: c.peers,
	})
	h.noAnySource, h.noAnyTag = taken.NoAnySource, taken.NoAnyTag
	c.coll.main.deterministic.Store(h.deterministic)
	x.hints = h
}

// get returns the hints in force.
func (x *currentHints) get() hints {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.hints
}

// SetInfo changes hints.
func SetInfo(c *Comm, info *Info) error {
	a, err := begin(c, perf.SetInfo, c.checkUsable(perf.SetInfo.String()))
	if err != nil {
		return err
	}
	defer a.end()
	return a.setInfo(info)
}

func (a *agreement) setInfo(info *Info) error {
	c := a.comm
	h, err := a.agreeHints(c.hints.get().withInfo(info, railsOf(c)))
	if err != nil {
		return err
	}
	c.hints.apply(c, h)
	return nil
}

// GetInfo returns the hints in force: all known hints with their values, including defaults.
func GetInfo(c *Comm) (*Info, error) {
	if err := c.checkUsable("GetInfo"); err != nil {
		return nil, err
	}
	h := c.hints.get()
	return h.toInfo(railsOf(c)), nil
}
