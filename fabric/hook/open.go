package hook

import (
	"context"
	"math/rand/v2"

	"github.com/ibrun/ibrun/fabric"
)

// Wrap returns a transport whose domains are those of t, treated as o says. Its Name is that of t.
func Wrap(t fabric.Transport, o Options) fabric.Transport {
	if o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	if o.MaxDelay == 0 {
		o.MaxDelay = 8
	}
	if o.Log != nil {
		o.Log("fabric/hook: seed %#x", o.Seed)
	}
	return &transport{t, o}
}

type transport struct {
	fabric.Transport
	o Options
}

func (t *transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	inner, err := t.Transport.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d := newDomain(inner, t.o, cfg)
	if t.o.Opened != nil {
		t.o.Opened(cfg.Self, d)
	}
	if s, ok := inner.(fabric.SharedMemory); ok && t.o.Share {
		return &sharing{d, s}, nil
	}
	return d, nil
}

// sharing is a domain that lets its peers share memory.
type sharing struct {
	*Domain
	fabric.SharedMemory
}

// chance draws from a stream of its own.
type chance struct{ *rand.Rand }

func newChance(seed uint64, self, stream int) chance {
	return chance{rand.New(rand.NewPCG(seed, uint64(self)<<1|uint64(stream)))}
}

// of is true with probability p. It draws only if p is not 0, so that an option that is off changes nothing for the
// others.
func (c chance) of(p float64) bool { return p > 0 && c.Float64() < p }
