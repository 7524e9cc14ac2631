// Package fabrictest is the suite that every transport of package fabric must pass. A transport's own test is one call:
//
//	func TestConformance(t *testing.T) {
//		fabrictest.Run(t, func(tb testing.TB, n int) []fabric.Transport {
//			hub := mem.NewHub(n)
//			return slices.Repeat([]fabric.Transport{hub.Transport()}, n)
//		})
//	}
//
// The function makes a fresh set of n peers that can reach each other and live in this one process; the suite opens
// and closes their domains. If the Caps of a transport exclude something, the suite checks that it returns the
// right error instead. [Rules] is for a transport with injected faults, and [Bench] measures one.
//
// No result depends on timing. A watchdog ends a test that hangs for minutes and prints all stacks.
package fabrictest
