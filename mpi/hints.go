package mpi

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/ibrun/ibrun/mpi/internal/proto"
	"github.com/ibrun/ibrun/perf"
)

// The keys of hints for communicators. docs/hints.md tells what each does. MPI-5.0 §7.4.4.
const (
	hintNoAnyTag    = "mpi_assert_no_any_tag"
	hintNoAnySource = "mpi_assert_no_any_source"
	hintExact       = "mpi_assert_exact_length"
	hintOvertaking  = "mpi_assert_allow_overtaking"
	hintStrict      = "mpi_assert_strict_persistent_collective_ordering"
	hintKinds       = "mpi_assert_memory_alloc_kinds"
	hintEager       = "ibrun_eager"
	hintRail        = "ibrun_rail"
	hintDevice      = "ibrun_device"
)

// hintAuto is the value of hints that leave the choice to the library.
const hintAuto = "auto"

// hints are those of a communicator. The zero value is not the default: see newHints.
type hints struct {
	noAnyTag, noAnySource bool
	exact, overtaking     bool
	strict                bool
	kinds                 string // empty: not set
	eager                 int    // bytes; -1: auto
	rail                  int    // of Engine.Rails; -1: auto

	agreements uint32 // how often they were agreed on
	epoch      uint32 // of the agreement, if any rank asserts exact lengths; or 0
}

func newHints() hints { return hints{eager: -1, rail: -1} }

// withInfo is h with what an info says, given the names of the rails. Unknown keys, and values that make no sense or cannot be
// followed, change nothing.
func (h hints) withInfo(i *Info, rails []string) hints {
	for key, flag := range map[string]*bool{
		hintNoAnyTag: &h.noAnyTag, hintNoAnySource: &h.noAnySource, hintExact: &h.exact, hintOvertaking: &h.overtaking,
		hintStrict: &h.strict,
	} {
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
	h.rail = chooseRail(i, rails, h.rail)
	return h
}

// rails are those of the engine. A communicator that is nil has none, which its methods refuse later.
func (c *Comm) rails() []string {
	if c == nil {
		return nil
	}
	return c.engine.Rails()
}

// chooseRail is the rail that an info chooses: by its device, of which the port may be left out, else by its number; -1: the
// choice is left to the library. If it does neither, it stays the one before.
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

// supportedMemoryKinds reports whether buffers may be of all memory kinds in a list: Go's own memory, other memory of
// the system, and memory from Alloc. MPI-5.0 §12.4.3.
func supportedMemoryKinds(list string) bool {
	for kind := range strings.SplitSeq(list, ",") {
		if !slices.Contains([]string{"system", "mpi", "mpi:alloc_mem"}, kind) {
			return false
		}
	}
	return true
}

// toInfo is a new Info with all hints as they are. Where there are no rails, nothing is said of them.
func (h *hints) toInfo(rails []string) *Info {
	i := &Info{}
	set := func(key, value string) { _ = i.Set(key, value) } // both are within the limits
	for _, f := range []struct {
		key string
		on  bool
	}{
		{hintNoAnyTag, h.noAnyTag}, {hintNoAnySource, h.noAnySource}, {hintExact, h.exact}, {hintOvertaking, h.overtaking},
		{hintStrict, h.strict},
	} {
		set(f.key, strconv.FormatBool(f.on))
	}
	if h.kinds != "" {
		set(hintKinds, h.kinds)
	}
	eager := hintAuto
	if h.eager >= 0 {
		eager = strconv.Itoa(h.eager)
	}
	set(hintEager, eager)
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

var errStrictDiffers = errors.New(hintStrict + " is to be the same at all ranks, and is not")

// agreeHints agrees with all ranks on hints that are about to come into force. Those that have to be the same everywhere are an
// error everywhere if they are not.
func (m *agreement) agreeHints(h hints) (hints, error) {
	const strict, loose, inexact = 1, 2, 4
	mine := uint8(loose)
	if h.strict {
		mine = strict
	}
	if !h.exact {
		mine |= inexact
	}
	all, err := m.andBits(mine)
	if err != nil {
		return h, err
	}
	if all&(strict|loose) == 0 {
		return h, m.comm.newError(m.op, ErrInfoValue, errStrictDiffers)
	}
	h.agreements++
	h.epoch = 0
	if all&inexact == 0 {
		h.epoch = h.agreements%(1<<proto.EpochBits-1) + 1
	}
	return h, nil
}

// applyHints brings hints into force.
func (c *Comm) applyHints(h hints) {
	c.hintsMu.Lock()
	defer c.hintsMu.Unlock()
	taken := c.engine.SetHints(c.contextID, proto.Hints{
		NoAnySource: h.noAnySource, NoAnyTag: h.noAnyTag, ExactLength: h.exact, Epoch: h.epoch, AllowOvertaking: h.overtaking,
		EagerLimit: h.eager, Rail: h.rail, Peers: c.peers,
	})
	h.noAnySource, h.noAnyTag = taken.NoAnySource, taken.NoAnyTag
	c.hints = h
}

func (c *Comm) currentHints() hints {
	c.hintsMu.Lock()
	defer c.hintsMu.Unlock()
	return c.hints
}

// SetInfo gives hints. Those that info does not have stay as they are, and so do those whose value makes no sense; keys that
// are not known are ignored, and a nil info has none. It is collective, and the ranks may give different hints, except that
// mpi_assert_strict_persistent_collective_ordering has to come out the same at all of them: otherwise SetInfo is
// ErrInfoValue at all, and nothing changes. An assertion against a wildcard is not taken while a receive with it
// waits. [Comm.GetInfo] tells what is in force. MPI-5.0 §7.4.4.
func (c *Comm) SetInfo(info *Info) error {
	if err := c.checkUsable(perf.SetInfo.String()); err != nil {
		return err
	}
	defer c.proc.recordCall(perf.SetInfo)()
	return c.setInfo(perf.SetInfo, info)
}

func (c *Comm) setInfo(call perf.Op, info *Info) error {
	h, err := c.newAgreement(call).agreeHints(c.currentHints().withInfo(info, c.rails()))
	if err != nil {
		return err
	}
	c.applyHints(h)
	return nil
}

// GetInfo returns the hints in force: all that are known and their values, defaults too. Each call makes a new Info, which is
// the caller's. Any goroutine may call it. MPI-5.0 §7.4.4.
func (c *Comm) GetInfo() (*Info, error) {
	if err := c.checkUsable("GetInfo"); err != nil {
		return nil, err
	}
	h := c.currentHints()
	return h.toInfo(c.rails()), nil
}
