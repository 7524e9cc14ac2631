// Package ranklink connects the agent of ibrun with a rank, in addition to PMI. The connection is a packet socket; the rank
// inherits its descriptor under the number in IBRUN_FD.
//
// The agent that starts a rank makes a pair of sockets, sends [RankInfo] before the rank runs, and passes the other end to the
// rank:
//
//	link, rankEnd, err := ranklink.Pair()
//	err = link.Send(ranklink.KindRankInfo, &ranklink.RankInfo{JobID: "j1", Rank: 3, Size: 8})
//	cmd.ExtraFiles, cmd.Env = []*os.File{rankEnd}, append(env, "IBRUN_FD=3")
//	...
//	m, err := link.Recv(ctx) // a message of the rank, or io.EOF after it has ended
//
// The rank receives it at start. All results are nil if IBRUN_FD is not set:
//
//	link, info, err := ranklink.FromEnv(os.Getenv)
//
// A packet is one message: one byte kind, one byte version, then a JSON value or nothing. It has at most [MaxPacket] bytes.
// Receivers ignore kinds, versions and JSON fields that they do not know, so that ranks and ibrun may have different versions.
// The link is used for set-up and reports only, so it need not be fast.
package ranklink
