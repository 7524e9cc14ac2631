package hook

import (
	"context"
	"math/rand/v2"

	"github.com/ibrun/ibrun/fabric"
)

// Wrap returns a transport whose domains wrap those of t and inject the faults of o. Its Name is that of t.
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
	opts Options
}

func (t *transport) Open(ctx context.Context, cfg *fabric.Config) (fabric.Domain, error) {
	inner, err := t.Transport.Open(ctx, cfg)
	if err != nil {
		return nil, err
	}
	d := newDomain(inner, t.opts, cfg)
	if t.opts.OnOpen != nil {
		t.opts.OnOpen(cfg.Self, d)
	}
	if s, ok := inner.(fabric.SharedMemory); ok && t.opts.Share {
		return &sharingDomain{d, s}, nil
	}
	return d, nil
}

// sharingDomain is a Domain with shared memory.
type sharingDomain struct {
	*Domain
	fabric.SharedMemory
}

// random is a stream of random numbers.
type random struct{ *rand.Rand }

func newRandom(seed uint64, self, stream int) random {
	return random{rand.New(rand.NewPCG(seed, uint64(self)<<1|uint64(stream)))}
}

// happens returns true with probability p. It draws a number only if p is not 0, so that an unused option does not change the
// others.
func (c random) happens(p float64) bool { return p > 0 && c.Float64() < p }
