// Package verbstest has what tests of RDMA code need: simulated devices, and the suite that every provider of package verbs must
// pass.
//
// [NewSimulatedNetwork] makes a network of devices that exist in the process only. Code that uses package verbs can be tested
// with it on any machine, without a device and without privileges.
//
// A provider's own test is one call of [Run]:
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
// Each call of the function opens the device again, and the suite closes the returned context. The suite connects queue
// pairs of this one device only. A device reports missing features by its attributes or by [verbs.ErrNotSupported]; the
// suite then checks that it reports them consistently. The suite accepts the known differences of the kernel's rxe driver
// from the standard, such as other statuses for some errors.
//
// Besides its subject, every rule checks the completions of all requests: each request completes exactly once, with its own
// number, on its own queue pair, and in order. A leak check of file descriptors, mappings and goroutines follows each rule.
//
// No rule depends on how long something takes. A test fails if it waits longer than its timeout, a minute by default.
package verbstest
