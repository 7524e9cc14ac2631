// Package live is for tests that need an RDMA device. Such tests stand in files named *_live_test.go and begin with
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
// Elsewhere than in a guest they are skipped, with the command that runs them:
//
//	go run github.com/ibrun/ibrun/soft-roce/vm -- go test ./...
//
// In a guest, where IBRUN_LIVE is the number of nodes, a device that is missing makes them fail. On a machine of one's
// own with an RDMA device, IBRUN_LIVE=1 does the same.
package live
