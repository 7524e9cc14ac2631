package tcp_test

import (
	"crypto/rand"
	"slices"
	"testing"
	"time"

	"github.com/ibrun/ibrun/fabric"
	"github.com/ibrun/ibrun/fabric/fabrictest"
	"github.com/ibrun/ibrun/fabric/hook"
	"github.com/ibrun/ibrun/fabric/tcp"
)

// over makes peers in this process that reach each other through the given interfaces.
func over(rules ...string) fabrictest.Peers {
	return func(_ testing.TB, n int) []fabric.Transport {
		tr := &tcp.Transport{Interfaces: rules, Linger: 50 * time.Millisecond}
		rand.Read(tr.Key[:])
		return slices.Repeat([]fabric.Transport{tr}, n)
	}
}

func TestConformance(t *testing.T) { fabrictest.Run(t, over("127.0.0.1/32")) }

// TestHook: the rules hold over IPv6 as well, and whatever chance does to timing.
func TestHook(t *testing.T) {
	fabrictest.Rules(t, func(tb testing.TB, n int) []fabric.Transport {
		ts := over("::1/128")(tb, n)
		for i := range ts {
			ts[i] = hook.Wrap(ts[i], hook.Options{Log: tb.Logf, Again: 0.1, Delay: 0.1, Mix: 0.1, Late: 0.1, Poison: true})
		}
		return ts
	})
}

func BenchmarkTCP(b *testing.B) { fabrictest.Bench(b, over("127.0.0.1/32")) }
