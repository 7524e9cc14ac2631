package foreign

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// teeInstead returns what to write instead of torchrun's --tee.
const teeInstead = "write --output DIR/%r for a file of each rank, or: ibrun --label ... | tee FILE"

// torchrunFlags are those of torchrun. Each has a spelling with dashes and one with underscores.
func torchrunFlags() []Spelling {
	rows := []Spelling{
		{Names: []string{"nproc-per-node"}, Args: []string{"N|gpu|cpu"}, To: "--ppn=$1", convert: nprocPerNode,
			Note: "gpu is `--map-by ppr:1:gpu`, cpu is `--map-by ppr:1:hwthread`"},
		{Names: []string{"standalone"}, To: "--node=0/1"},
		{Names: []string{"nnodes"}, Args: []string{"N"}, keep: keepNodes, To: "--node=K/N",
			Note: "with `--node-rank` and `--master-addr`; 1 is `--node 0/1`"},
		{Names: []string{"node-rank"}, Args: []string{"K"}, keep: keepNodeRank, To: "--node=K/N"},
		{Names: []string{"master-addr"}, Args: []string{"HOST"}, keep: keepMasterAddress, To: "--rendezvous=HOST:PORT",
			Note: "`--secret-file` is needed too"},
		{Names: []string{"master-port"}, Args: []string{"PORT"}, keep: keepMasterPort, To: "--rendezvous=HOST:PORT",
			Note: "29500 if left out"},
		{Names: []string{"rdzv-endpoint"}, Args: []string{"HOST:PORT"}, keep: keepEndpoint, To: "--rendezvous=HOST:PORT",
			Note: "`--secret-file` is needed too"},
		{Names: []string{"rdzv-backend"}, Args: []string{"NAME"}, keep: keepBackend,
			NoEffect: "ibrun has a rendezvous of its own",
			Note:     "nodes have numbers: `--node-rank`"},
		{Names: []string{"rdzv-id"}, Args: []string{"ID"}, NoEffect: "the secret file tells jobs apart"},
		{Names: []string{"rdzv-conf"}, Args: []string{"LIST"},
			Instead: "write --join-timeout TIME for how long nodes wait for each other"},
		{Names: []string{"monitor-interval"}, Args: []string{"SECONDS"}, NoEffect: "ibrun sees the end of a rank at once"},
		{Names: []string{"start-method"}, Args: []string{"METHOD"},
			NoEffect: "ibrun starts programs, and does not fork itself"},
		{Names: []string{"role"}, Args: []string{"NAME"}, Instead: "write --pset NAME=RANKS"},
		{Names: []string{"module"}, Args: []string{"MODULE"}, Instead: "write the program: python3 -m $1"},
		{Names: []string{"no-python"}, NoEffect: "ibrun starts the program itself"},
		{Names: []string{"run-path"}, Instead: "write the program: python3 FILE"},
		{Names: []string{"log-dir"}, Args: []string{"DIR"}, Instead: "write --output $1/%r, which has both streams of a rank"},
		{Names: []string{"r"}, Args: []string{"STREAMS"}, convert: tee, Instead: teeInstead,
			Means: "which streams are written to files"},
		{Names: []string{"redirects"}, Args: []string{"STREAMS"}, convert: tee,
			Instead: "write --output DIR/%r, which has both streams of a rank"},
		{Names: []string{"tee"}, Args: []string{"STREAMS"}, convert: tee, Instead: teeInstead},
		{Names: []string{"local-ranks-filter"}, Args: []string{"RANKS"}, Instead: `write: ibrun --label ... | grep '^\[$1\]'`},
		{Names: []string{"local-addr"}, Args: []string{"ADDRESS"}, Instead: "write --tcp-interfaces with the network to use"},
		{Names: []string{"numa-binding"}, Args: []string{"HOW"}, Instead: "write --map-by gpu or --map-by numa"},
		{Names: []string{"signals-to-handle"}, Args: []string{"LIST"},
			Instead: "ibrun forwards the signals that ibrun help lists: leave it out"},
		{Names: []string{"event-log-handler", "logs-specs"}, Args: []string{"NAME"},
			Instead: "ibrun has no such log: leave it out"},
	}
	for i := range rows {
		rows[i].Of = Torchrun
		for _, name := range rows[i].Names {
			if underscored := strings.ReplaceAll(name, "-", "_"); underscored != name {
				rows[i].Names = append(rows[i].Names, underscored)
			}
		}
	}
	return rows
}

// tee is torchrun's --tee and --redirects: 0 is the default.
func tee(v []string) (meaning, error) {
	if v[0] == "0" {
		return noEffect("output is only shown")
	}
	return instead("%s", teeInstead)
}

// nprocPerNode is torchrun's --nproc-per-node.
func nprocPerNode(v []string) (meaning, error) {
	switch v[0] {
	case "gpu", "cuda":
		return to("--map-by=ppr:1:gpu")
	case "cpu":
		return to("--map-by=ppr:1:hwthread")
	case "auto":
		return instead("write gpu for a rank on each GPU, or cpu for one on each hardware thread")
	}
	return to("--ppn=" + v[0])
}

// The values of torchrun's flags about nodes, collected until all are known.
const (
	keepNodes         = "nnodes"
	keepNodeRank      = "node-rank"
	keepMasterAddress = "master-addr"
	keepMasterPort    = "master-port"
	keepEndpoint      = "rdzv-endpoint"
	keepBackend       = "rdzv-backend"
)

// torchPort is the port that torchrun uses unless another is given.
const torchPort = "29500"

// torchNodes returns the flags of ibrun for torchrun's flags about nodes.
func torchNodes(kept map[string]string) ([]string, error) {
	nodes, several := kept[keepNodes]
	least, most, isRange := strings.Cut(nodes, ":")
	if isRange && least != most {
		return nil, fmt.Errorf("--nnodes %s: ibrun starts a fixed number of nodes; write --nnodes %s", nodes, most)
	}
	n, err := strconv.Atoi(least)
	switch {
	case !several:
		n = 1
	case err != nil || n < 1:
		return nil, fmt.Errorf("--nnodes %s: want a number of nodes", nodes)
	}
	endpoint := kept[keepEndpoint]
	if host := kept[keepMasterAddress]; host != "" {
		port := torchPort
		if kept[keepMasterPort] != "" {
			port = kept[keepMasterPort]
		}
		endpoint = net.JoinHostPort(strings.Trim(host, "[]"), port)
	} else if _, _, err := net.SplitHostPort(endpoint); endpoint != "" && err != nil {
		endpoint = net.JoinHostPort(strings.Trim(endpoint, "[]"), torchPort)
	}
	rank, hasRank := kept[keepNodeRank]
	switch {
	case n == 1 && hasRank && rank != "0":
		return nil, fmt.Errorf("--node-rank %s: the job has one node: write --node %[1]s/N, with the number N of nodes", rank)
	case n == 1:
		return []string{"--node=0/1"}, nil
	case endpoint == "":
		return nil, fmt.Errorf("--nnodes %s: write --hosts with the hosts, or --rendezvous HOST:PORT, --node K/%d and "+
			"--secret-file on "+
			"each node", nodes, n)
	case !hasRank:
		return nil, fmt.Errorf("--nnodes %s: nodes have numbers in ibrun: write --node K/%d, with K from 0 at the node of "+
			"--rendezvous %s, "+
			"and --secret-file", nodes, n, endpoint)
	}
	return []string{"--rendezvous=" + endpoint, fmt.Sprintf("--node=%s/%d", rank, n)}, nil
}
