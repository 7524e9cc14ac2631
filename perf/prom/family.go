package prom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// kind is what type of metric a family has.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// family is a metric family. Its place in families is its number.
type family struct {
	name, help string
	kind       kind
	labels     []string
	ofNode     bool // not of ranks: without the label rank
}

const (
	jobInfo = iota
	rankStates
	rankSeconds
	callSeconds
	waitSeconds
	calls
	operationBytes
	latency
	longestLatency
	oldest
	messages
	messageBytes
	unexpected
	unexpectedHigh
	unexpectedBytes
	posted
	matched
	matchLength
	retransmissions
	registrations
	pinned
	pinnedHigh
	pageFaults
	portUp
	portRate
	portSent
	portReceived
	portCounter
	deviceProblems
)

var families = [...]family{
	jobInfo: {name: "ibrun_job_info", kind: gauge, labels: []string{"job", "node"}, ofNode: true,
		help: "1; names the job that the node works for, and the node."},
	rankStates: {name: "ibrun_ranks", kind: gauge, labels: []string{"state"}, ofNode: true,
		help: "Ranks on this node, by state: silent (has written no page), running, finalized, dead (ended without finalizing)."},
	rankSeconds: {name: "ibrun_rank_seconds_total", kind: counter,
		help: "Time that ranks have run, from initialisation to finalizing."},
	callSeconds: {name: "ibrun_call_seconds_total", kind: counter,
		help: "Time that ranks have spent within calls of package mpi; as a share of ibrun_rank_seconds_total that of communication."},
	waitSeconds: {name: "ibrun_wait_seconds_total", kind: counter,
		help: "Time within calls that ranks have waited for others, but for waits of less than some microseconds."},
	calls: {name: "ibrun_calls_total", kind: counter, labels: []string{"op"},
		help: "Calls of package mpi, by operation."},
	operationBytes: {name: "ibrun_operation_bytes_total", kind: counter, labels: []string{"op"},
		help: "Bytes that calls were given to send or have received, by operation."},
	latency: {name: "ibrun_operation_seconds", kind: histogram, labels: []string{"op", "size"},
		help: "Duration of calls, by operation and size class, named by its largest size; of those up to 4 KiB one in 32 is timed."},
	longestLatency: {name: "ibrun_operation_longest_seconds", kind: gauge, labels: []string{"op"},
		help: "The longest call that was timed since the start, by operation."},
	oldest: {name: "ibrun_operation_oldest_seconds", kind: gauge,
		help: "For how long the call has lasted that is under way longest, as far as scrapes have seen it; 0 if none is."},
	messages: {name: "ibrun_messages_total", kind: counter, labels: []string{"direction", "transport", "protocol"},
		help: "Messages, those within collectives too, by direction, transport and protocol."},
	messageBytes: {name: "ibrun_message_bytes_total", kind: counter, labels: []string{"direction", "transport", "protocol"},
		help: "Payload of these messages."},
	unexpected: {name: "ibrun_unexpected_messages", kind: gauge,
		help: "Messages that have come before their receives and are kept."},
	unexpectedHigh: {name: "ibrun_unexpected_messages_highest", kind: gauge,
		help: "The most messages that a rank has kept at a time."},
	unexpectedBytes: {name: "ibrun_unexpected_bytes", kind: gauge,
		help: "Memory that these messages take."},
	posted: {name: "ibrun_posted_receives", kind: gauge,
		help: "Receives that wait for a message, looked at in one call of 32."},
	matched: {name: "ibrun_match_samples_total", kind: counter,
		help: "Receives of which the length of the queues was taken."},
	matchLength: {name: "ibrun_match_length_total", kind: counter,
		help: "The sum of these lengths: divided by ibrun_match_samples_total the mean length."},
	retransmissions: {name: "ibrun_retransmissions_total", kind: counter,
		help: "Packets that the transports of the ranks had to send again, as far as they know."},
	registrations: {name: "ibrun_registrations_total", kind: counter,
		help: "Registrations of memory with RDMA devices."},
	pinned: {name: "ibrun_pinned_bytes", kind: gauge,
		help: "Memory that is registered with RDMA devices."},
	pinnedHigh: {name: "ibrun_pinned_bytes_highest", kind: gauge,
		help: "The most memory that a rank has had registered at a time."},
	pageFaults: {name: "ibrun_pages_unreadable", kind: gauge, ofNode: true,
		help: "Ranks whose page cannot be read: of another version, or destroyed. Their counters stay where they were."},
	portUp: {name: "ibrun_rdma_port_up", kind: gauge, labels: []string{"device", "port", "netdev", "link_layer"}, ofNode: true,
		help: "1 if the port of the RDMA device is active, 0 if not."},
	portRate: {name: "ibrun_rdma_port_rate_bytes_per_second", kind: gauge, labels: []string{"device", "port"}, ofNode: true,
		help: "The rate that the port has agreed on with its neighbour."},
	portSent: {name: "ibrun_rdma_port_sent_bytes_total", kind: counter, labels: []string{"device", "port"}, ofNode: true,
		help: "Bytes that the port has sent, of all processes (port_xmit_data)."},
	portReceived: {name: "ibrun_rdma_port_received_bytes_total", kind: counter, labels: []string{"device", "port"}, ofNode: true,
		help: "Bytes that the port has received, of all processes (port_rcv_data)."},
	portCounter: {name: "ibrun_rdma_counter_total", kind: counter, labels: []string{"device", "port", "counter"}, ofNode: true,
		help: "The other counters of the port by the kernel's names, in the kernel's units."},
	deviceProblems: {name: "ibrun_rdma_device_problems", kind: gauge, labels: []string{"device"}, ofNode: true,
		help: "How many things about the RDMA device could not be read."},
}

// rankLabel is that of the series of single ranks.
const rankLabel = "rank"

// descs are the descriptions of all families, with the label of single ranks or without it.
func descs(each bool) (d [len(families)]*prometheus.Desc) {
	for i, f := range families {
		labels := f.labels
		if each && !f.ofNode {
			labels = append(slices.Clip(labels), rankLabel)
		}
		d[i] = prometheus.NewDesc(f.name, f.help, labels, nil)
	}
	return d
}
