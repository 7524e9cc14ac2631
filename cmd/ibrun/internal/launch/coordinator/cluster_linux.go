package coordinator

import (
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/monitor"
	"github.com/ibrun/ibrun/cmd/ibrun/internal/launch/protocol"
)

// connectMonitor gives the monitor the names of all nodes and the nodes that it can query. It must be called before the monitor
// starts.
func (cl *Cluster) connectMonitor(mon *monitor.Monitor, where Layout, self int) {
	if len(where.RanksOn) == 1 {
		return
	}
	var hosts []string
	var others []int
	for rank, node := range where.NodeOf {
		hosts = append(hosts, cl.Job.Names[node])
		if node != self {
			others = append(others, rank)
		}
	}
	if cl.coordinator != nil {
		send := func(q *protocol.Question, a *protocol.Answer) {
			cl.sendEvent(&protocol.Event{Kind: protocol.EventInspect, Question: q, Answer: a})
		}
		mon.ConnectNodes(hosts, []*monitor.RemoteNode{{Number: 0, Ranks: others, Send: send}})
		mon.ForwardProgress(func(p protocol.Progress) {
			cl.sendEvent(&protocol.Event{Kind: protocol.EventProgress,
				Progress: &p})
		})
		return
	}
	var remotes []*monitor.RemoteNode
	for i, w := range cl.workers {
		if i > 0 {
			send := func(q *protocol.Question, a *protocol.Answer) {
				encodeOrder(&protocol.Order{Question: q, Answer: a})(w.conn)
			}
			remotes = append(remotes, &monitor.RemoteNode{Number: i, Ranks: where.RanksOn[i], Send: send})
		}
	}
	mon.ConnectNodes(hosts, remotes)
}
