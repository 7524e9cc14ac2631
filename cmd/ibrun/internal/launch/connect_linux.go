package launch

// connectMonitor gives the monitor the names of all nodes and the nodes that it can query. It must be called before the monitor
// starts.
func (m *Cluster) connectMonitor(mon *Monitor, where Layout, self int) {
	if len(where.RanksOn) == 1 {
		return
	}
	var hosts []string
	var others []int
	for rank, node := range where.NodeOf {
		hosts = append(hosts, m.Welcome.Names[node])
		if node != self {
			others = append(others, rank)
		}
	}
	if m.node0 != nil {
		send := func(q *Question, a *Answer) { m.sendEvent(&Event{Kind: EventInspect, Question: q, Answer: a}) }
		mon.ConnectNodes(hosts, []*RemoteNode{{0, others, send}})
		mon.ForwardProgress(func(p Progress) { m.sendEvent(&Event{Kind: EventProgress, Progress: &p}) })
		return
	}
	var remotes []*RemoteNode
	for i, w := range m.workers {
		if i > 0 {
			send := func(q *Question, a *Answer) { encodeOrder(&Order{Question: q, Answer: a})(w.conn) }
			remotes = append(remotes, &RemoteNode{i, where.RanksOn[i], send})
		}
	}
	mon.ConnectNodes(hosts, remotes)
}
