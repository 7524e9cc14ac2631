package ended

// NumberBits is the number of bits of a context that hold its number.
const NumberBits = 13

// Number returns the number of a context.
func Number(context uint32) uint32 { return context & (1<<NumberBits - 1) }

// Ending is a context that has ended.
type Ending struct {
	Context uint32
	Freed   bool // its communicator was freed by all of its processes
}

// Contexts knows which contexts have ended. The zero Contexts knows none.
type Contexts struct {
	last      map[uint32]Ending // by number, the last context with that number that ended
	unsettled map[uint32]Ending // the entries of last that Expect has taken out
}

// IsStale reports whether a context has ended. The comparison of generations allows for
// wrap-around.
func (c *Contexts) IsStale(context uint32) bool {
	last, ok := c.last[Number(context)]
	return ok && int32(context-last.Context) <= 0
}

// IsFreed reports whether a context has ended because all processes freed its communicator. Of the
// contexts with one number it knows that of the last that has ended here. It takes earlier ones as
// freed, which usually they were.
func (c *Contexts) IsFreed(context uint32) bool {
	number := Number(context)
	if last, ok := c.unsettled[number]; ok && last.Context == context {
		return last.Freed
	}
	last := c.last[number]
	return c.IsStale(context) && (last.Freed || last.Context != context)
}

// HasEnded is IsStale for a context that this process has used, also while it does not know which
// is the next one of its number.
func (c *Contexts) HasEnded(context uint32) bool {
	last, ok := c.unsettled[Number(context)]
	return ok && last.Context == context || c.IsStale(context)
}

// End records that a context has ended, and all before it with the same number.
func (c *Contexts) End(end Ending) {
	if c.last == nil {
		c.last = map[uint32]Ending{}
	}
	c.last[Number(end.Context)] = end
}

// Expect makes no context of a number count as ended until Agreed is called.
func (c *Contexts) Expect(number uint32) {
	if last, ok := c.last[number]; ok {
		if c.unsettled == nil {
			c.unsettled = map[uint32]Ending{}
		}
		c.unsettled[number] = last
		delete(c.last, number)
	}
}

// Agreed records which context of its number is used next, and whether this process joins it. It
// returns the context that had ended last before Expect, if that is another one.
func (c *Contexts) Agreed(context uint32, joins bool) (last Ending, ok bool) {
	number := Number(context)
	last, ok = c.unsettled[number]
	delete(c.unsettled, number)
	before := Ending{context - 1<<NumberBits, true}
	switch {
	case !joins:
		c.End(Ending{context, true})
	case ok && last.Context == before.Context:
		c.End(last)
	default:
		c.End(before)
	}
	return last, ok && last.Context != context
}
