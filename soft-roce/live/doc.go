// Package live is for tests that need an RDMA device. Such tests are in files named *_live_test.go and begin with
//
//	func TestLiveSend(t *testing.T) {
//		device := live.Device(t)
//
// or, when they need two machines on one wire,
//
//	func TestLiveTwoNodes(t *testing.T) {
//		nodes := live.Nodes(t, 2)
//		server := nodes[1].Command("ibv_rc_pingpong", "-g", "1")
//		...
//
// Outside a guest they are skipped. The skip message has the command that runs them:
//
//	go run github.com/ibrun/ibrun/soft-roce/vm -- go test ./...
//
// In a guest, IBRUN_LIVE is the number of nodes, and the tests fail if the device is missing. Set IBRUN_LIVE=1 to run the
// tests on another machine with an RDMA device.
package live
