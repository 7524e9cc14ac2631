package prom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// kind is the type of a metric family.
type kind string

const (
	counter   kind = "counter"
	gauge     kind = "gauge"
	histogram kind = "histogram"
)

// family is a metric family. Its number is its index in families.
type family struct {
	name, help string
	kind       kind
	labels     []string
	perNode    bool // a property of the node: never with the label rank
}

const (
	buildInfo = iota
	exitCode
	rankStates
	progressDone
	progressExpected
	rankSeconds
	cpuSeconds
	resident
	residentHigh
	callSeconds
	waitSeconds
	calls
	operationBytes
	latency
	longestLatency
	oldestCall
	messages
	messageBytes
	unexpected
	unexpectedHigh
	unexpectedBytes
	posted
	matched
	matchLength
	retransmissions
	reconnections
	changes
	registrations
	pinned
	pinnedHigh
	unreadablePages
	portUp
	portRate
	portSent
	portReceived
	portCounter
	deviceProblems
)

var families = [...]family{
	buildInfo: {name: "ibrun_build_info", kind: gauge, labels: []string{"version", "revision", "goversion"}, perNode: true,
		help: "1; the labels name the version of ibrun, the commit it was built from, and the version of Go."},
	exitCode: {name: "ibrun_job_exit_code", kind: gauge, perNode: true,
		help: "Exit code of the job. There is no series before the end of the job."},
	rankStates: {name: "ibrun_ranks", kind: gauge, labels: []string{"state"}, perNode: true,
		help: "Ranks on this node, by state: silent (has not written its page), running, finalized, dead (ended without Finalize)."},
	progressDone: {name: "ibrun_progress_steps", kind: gauge,
		help: "Steps that the program reports as done; 0 if it reports no progress."},
	progressExpected: {name: "ibrun_progress_expected_steps", kind: gauge,
		help: "Steps that the program reports as its whole work; 0 if it reports no progress."},
	rankSeconds: {name: "ibrun_rank_seconds_total", kind: counter,
		help: "Time that ranks have run, from Init to Finalize."},
	cpuSeconds: {name: "ibrun_process_cpu_seconds_total", kind: counter,
		help: "Processor time of the processes of the ranks, in user mode and in the kernel."},
	resident: {name: "ibrun_process_resident_memory_bytes", kind: gauge,
		help: "Resident memory of the processes of the ranks that have not ended. Memory that ranks share counts for each of them."},
	residentHigh: {name: "ibrun_process_resident_memory_highest_bytes", kind: gauge,
		help: "Largest amount of resident memory that the process of one rank has had."},
	callSeconds: {name: "ibrun_call_seconds_total", kind: counter,
		help: "Time spent within calls of package mpi. Divided by ibrun_rank_seconds_total: the share of communication."},
	waitSeconds: {name: "ibrun_wait_seconds_total", kind: counter,
		help: "Time within calls spent waiting for other ranks; waits below some microseconds are not counted."},
	calls: {name: "ibrun_calls_total", kind: counter, labels: []string{"op"},
		help: "Calls of package mpi, by operation."},
	operationBytes: {name: "ibrun_operation_bytes_total", kind: counter, labels: []string{"op"},
		help: "Bytes passed to sending calls or received, by operation."},
	latency: {name: "ibrun_operation_seconds", kind: histogram, labels: []string{"op", "size"},
		help: "Duration of calls, by operation and size class. Of calls up to 4 KiB one in 32 is timed."},
	longestLatency: {name: "ibrun_operation_longest_seconds", kind: gauge, labels: []string{"op"},
		help: "Longest timed call since the start, by operation."},
	oldestCall: {name: "ibrun_operation_oldest_seconds", kind: gauge,
		help: "Age of the oldest call in progress, as seen by scrapes; 0 if no call is in progress."},
	messages: {name: "ibrun_messages_total", kind: counter, labels: []string{"direction", "transport", "protocol"},
		help: "Messages, including those of collectives, by direction, transport and protocol."},
	messageBytes: {name: "ibrun_message_bytes_total", kind: counter, labels: []string{"direction", "transport", "protocol"},
		help: "Payload bytes of messages, by direction, transport and protocol."},
	unexpected: {name: "ibrun_unexpected_messages", kind: gauge,
		help: "Unexpected messages that are stored: they arrived before their receives."},
	unexpectedHigh: {name: "ibrun_unexpected_messages_highest", kind: gauge,
		help: "Largest number of unexpected messages that one rank has stored at a time."},
	unexpectedBytes: {name: "ibrun_unexpected_bytes", kind: gauge,
		help: "Memory used by stored unexpected messages."},
	posted: {name: "ibrun_posted_receives", kind: gauge,
		help: "Posted receives that wait for a message, sampled in one call of 32."},
	matched: {name: "ibrun_match_samples_total", kind: counter,
		help: "Receives for which the length of the match queues was sampled."},
	matchLength: {name: "ibrun_match_length_total", kind: counter,
		help: "Sum of the sampled lengths of the match queues. Divided by ibrun_match_samples_total: the mean length."},
	retransmissions: {name: "ibrun_retransmissions_total", kind: counter,
		help: "Packets that the transports of the ranks have retransmitted, as far as they report it."},
	reconnections: {name: "ibrun_reconnections_total", kind: counter,
		help: "Broken connections that the transports of the ranks have made again, as far as they report it."},
	changes: {name: "ibrun_changed_bytes_detected_total", kind: counter,
		help: "How often a checksum or encryption found that received bytes had been changed. They were sent again."},
	registrations: {name: "ibrun_registrations_total", kind: counter,
		help: "Registrations of memory with RDMA devices."},
	pinned: {name: "ibrun_pinned_bytes", kind: gauge,
		help: "Memory registered with RDMA devices."},
	pinnedHigh: {name: "ibrun_pinned_bytes_highest", kind: gauge,
		help: "Largest amount of memory that one rank has had registered at a time."},
	unreadablePages: {name: "ibrun_pages_unreadable", kind: gauge, perNode: true,
		help: "Ranks whose page cannot be read: written by another version, or corrupt. Their counters keep the last values."},
	portUp: {name: "ibrun_rdma_port_up", kind: gauge, labels: []string{"device", "port", "netdev", "link_layer"}, perNode: true,
		help: "1 if the port of the RDMA device is active, else 0."},
	portRate: {name: "ibrun_rdma_port_rate_bytes_per_second", kind: gauge, labels: []string{"device", "port"}, perNode: true,
		help: "Negotiated rate of the port."},
	portSent: {name: "ibrun_rdma_port_sent_bytes_total", kind: counter, labels: []string{"device", "port"}, perNode: true,
		help: "Bytes sent by the port, for all processes (port_xmit_data)."},
	portReceived: {name: "ibrun_rdma_port_received_bytes_total", kind: counter, labels: []string{"device", "port"}, perNode: true,
		help: "Bytes received by the port, for all processes (port_rcv_data)."},
	portCounter: {name: "ibrun_rdma_counter_total", kind: counter, labels: []string{"device", "port", "counter"}, perNode: true,
		help: "Other counters of the port, with the names and units of the kernel."},
	deviceProblems: {name: "ibrun_rdma_device_problems", kind: gauge, labels: []string{"device"}, perNode: true,
		help: "Number of attributes of the RDMA device that could not be read."},
}

// rankLabel is the label of series of single ranks.
const rankLabel = "rank"

// The labels of every series. Prometheus gives series the labels job and instance itself, and discovery others, such as node: a
// series that has such a label already gets another name for it, exported_node.
const (
	jobLabel  = "ibrun_job"
	nodeLabel = "ibrun_node"
)

// descs returns the descriptions of all families of a node, with or without the label rank.
func (n *Node) descs(each bool) (d [len(families)]*prometheus.Desc) {
	common := prometheus.Labels{jobLabel: n.Job, nodeLabel: n.Name}
	for i, f := range families {
		labels := f.labels
		if each && !f.perNode {
			labels = append(slices.Clip(labels), rankLabel)
		}
		d[i] = prometheus.NewDesc(f.name, f.help, labels, common)
	}
	return d
}
