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
// and closes their domains. Where a transport can do less, its Caps say so, and the suite then holds it to the
// error that it must answer instead. [Rules] is for a transport under fault injection, and [Bench] measures one.
//
// Nothing here depends on how long something takes. A watchdog ends what hangs for minutes, and prints all stacks.
package fabrictest
