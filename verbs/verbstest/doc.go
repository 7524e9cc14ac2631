// Package verbstest is the suite that every provider of package verbs must pass. A provider's own test is one call:
//
//	func TestLiveConformance(t *testing.T) {
//		name := live.Device(t)
//		verbstest.Run(t, func(tb testing.TB) *verbs.Context {
//			ctx, err := verbs.Open(name, verbs.Options{Provider: "rxe"})
//			if err != nil {
//				tb.Fatal(err)
//			}
//			return ctx
//		})
//	}
//
// The function opens the device anew at every call; the suite closes what it returns. All queue pairs of the suite are
// connected within the one device. Where a device can do less, it says so by its attributes or by
// [verbs.ErrNotSupported], and the suite then holds it to that. Where the kernel's rxe driver is known to differ from the
// standard, such as in the status of some errors, the suite knows it too.
//
// Whatever a rule is about, it also keeps a ledger of all requests: each completes exactly once, with its own number, on its own
// queue pair, in order; and a leak check of descriptors, mappings and goroutines: nothing is left behind.
//
// For tests of what is built on package verbs, [Play] makes a network of devices that exist in the process only.
//
// Nothing here depends on how long something takes. What does not come within minutes fails the test.
package verbstest
