package doctor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ibrun/ibrun/hw"
	"github.com/ibrun/ibrun/internal/transports"
	"github.com/ibrun/ibrun/internal/tunables"
	"github.com/ibrun/ibrun/mpi/explain"
	"github.com/ibrun/ibrun/verbs"
)

// noEnvironment returns the finding about settings if the environment is unknown.
func noEnvironment(what string) []Finding {
	return infoFinding("a captured tree does not contain the environment: %s unknown", what)
}

// settingsErrors returns what is wrong with the variables of ibrun's transports.
func settingsErrors(getenv func(string) string) error {
	_, errTransports := allowedTransports(getenv)
	errs := []error{errTransports, explain.CheckInterfaces(getenv(tunables.TCPInterfaces))}
	for _, a := range tunables.Attributes() {
		_, _, err := a.FromEnv(getenv)
		errs = append(errs, err)
	}
	for _, t := range tunables.All() {
		_, err := t.FromEnv(getenv)
		errs = append(errs, err)
	}
	_, errHeartbeat := tunables.HeartbeatFromEnv(getenv)
	_, errPoll := tunables.PollFromEnv(getenv)
	_, errEncrypt := tunables.EncryptFromEnv(getenv)
	_, errChecksum := tunables.ChecksumFromEnv(getenv)
	_, errProtocol := tunables.ProtocolFromEnv(getenv)
	_, errStores := tunables.StoresFromEnv(getenv)
	errs = append(errs, errHeartbeat, errPoll, errEncrypt, errChecksum, errProtocol, errStores)
	if err := verbs.CheckProvider(getenv(verbs.ProviderVariable)); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w", verbs.ProviderVariable, err))
	}
	return errors.Join(errs...)
}

// allowedTransports returns the names of the transports that jobs may use, nil for all.
func allowedTransports(getenv func(string) string) ([]string, error) {
	names, err := transports.ParseList(getenv(tunables.Transports))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", tunables.Transports, err)
	}
	return names, nil
}

// sharesMemory reports whether jobs may use shared memory. A job on one node then opens no other transport.
func (h *Host) sharesMemory() bool {
	names, err := allowedTransports(h.Getenv)
	return err == nil && (len(names) == 0 || slices.Contains(names, transports.Shm.String()))
}

// settingsValid checks the values of ibrun's variables.
func settingsValid(h *Host) []Finding {
	if !h.Live {
		return noEnvironment("ibrun's settings are")
	}
	if err := settingsErrors(h.Getenv); err != nil {
		return newFinding(Error, strings.ReplaceAll(err.Error(), "\n", "; "), "jobs fail at once with this error",
			"unset the variable, or set it to a value of docs/transports.md")
	}
	return okFinding("ibrun's settings have valid values")
}

// settingsInterfaces checks whether this host has the network interfaces that jobs may use for TCP. If a setting is invalid, it
// is unknown which they are.
func settingsInterfaces(h *Host) []Finding {
	if !h.Live {
		return noEnvironment("which network interfaces jobs may use is")
	}
	if err := settingsErrors(h.Getenv); err != nil {
		return infoFinding("the network interfaces are unknown: a setting is invalid") // reported by the check of settings
	}
	unset := "unset " + tunables.TCPInterfaces + "   # or name interfaces that ip address shows"
	switch {
	case h.InterfacesErr != nil:
		why, fix := "jobs fail with this error", unset
		if h.sharesMemory() {
			why = "jobs of several nodes fail with this error"
		}
		if h.Getenv(tunables.TCPInterfaces) == "" {
			fix = "ip link set NAME up   # ip address shows the names; TCP needs an interface with an address"
		}
		return newFinding(Error, h.InterfacesErr.Error(), why, fix)
	case len(h.UnusedInterfaces) > 0:
		return newFinding(Warning, strings.Join(h.UnusedInterfaces, "; "), "jobs use only the others, and print this", unset)
	}
	return okFinding("the network interfaces that jobs may use exist")
}

// settingsTimeout checks whether devices give up while the peer still counts as alive.
func settingsTimeout(h *Host) []Finding {
	if !h.Live {
		return noEnvironment("the timeouts are")
	}
	if err := settingsErrors(h.Getenv); err != nil {
		return infoFinding("the timeouts are unknown: a setting is invalid") // reported by the check of settings
	}
	value := func(a *tunables.Attribute) int {
		n, set, err := a.FromEnv(h.Getenv)
		if err != nil || !set {
			return a.Default
		}
		return n
	}
	timeout, retries := value(&tunables.RDMATimeout), value(&tunables.RDMARetries)
	heartbeat, err := tunables.HeartbeatFromEnv(h.Getenv)
	if err != nil {
		heartbeat = tunables.DefaultHeartbeat
	}
	wait := (time.Duration(4096) << timeout).Round(10 * time.Microsecond)
	total := wait * time.Duration(retries+1)
	evidence := fmt.Sprintf("a device sends again after %v, %d times, which takes %v; a peer that is silent for %v is lost",
		wait, retries, total, heartbeat)
	unset := "unset " + tunables.RDMATimeout.Variable + "   # 14, which is 67 ms, suits most networks"
	switch rnr := value(&tunables.RDMARNRRetries); {
	case timeout > tunables.RDMATimeout.Default && wait >= heartbeat:
		return newFinding(Error, evidence, "one lost packet would be a lost peer: RDMA is refused", unset)
	case timeout > tunables.RDMATimeout.Default && total > heartbeat:
		return newFinding(Warning, evidence, "a peer is lost before its connection is made again after a failure of the network", unset)
	case wait < time.Millisecond:
		return newFinding(Warning, evidence, "packets that are only delayed are sent again, which makes a congested network worse",
			unset)
	case rnr < tunables.RDMARNRRetries.Default:
		return newFinding(Warning, fmt.Sprintf("%s=%d", tunables.RDMARNRRetries.Variable, rnr),
			"the connection to a receiver that is busy breaks, and is made again", "unset "+tunables.RDMARNRRetries.Variable)
	}
	return okFinding("%s", evidence)
}

// settingsGID checks whether ports have the address that IBRUN_RDMA_GID_INDEX chooses.
func settingsGID(h *Host) []Finding {
	variable := tunables.RDMAGIDIndex.Variable
	index, set, err := tunables.RDMAGIDIndex.FromEnv(h.Getenv)
	switch {
	case !h.Live:
		return noEnvironment("whether " + variable + " is set is")
	case err != nil:
		return infoFinding("%v", err) // reported by the check of settings
	case !set:
		return okFinding("%s is not set", variable)
	}
	all := h.forEachUsable(func(d *hw.RDMADevice, p *hw.RDMAPort) []Finding {
		name := fmt.Sprintf("%s=%d, and %s", variable, index, portName(d, p))
		i := slices.IndexFunc(p.GIDs, func(g hw.GID) bool { return g.Index == index })
		best, errBest := p.ChooseGID(hw.GIDRequest{})
		unset := "unset " + variable + "   # ibrun chooses on each node"
		switch {
		case i < 0:
			return newFinding(Warning, name+" has no address at this index", "ibrun uses TCP instead of this port", unset)
		case p.GIDs[i].OtherNetns:
			return newFinding(Warning, name+" has an address of another network namespace there", "the kernel refuses to use it", unset)
		case p.GIDs[i].Type == hw.GIDRoCEv1:
			return newFinding(Warning, name+" has a RoCE v1 address there", "RoCE v1 is not routed, and peers need the same type", unset)
		case errBest == nil && best.Index != index && best.Family() != p.GIDs[i].Family():
			return newFinding(Warning, fmt.Sprintf("%s has %v there, but the best address is at index %d: %v", name, p.GIDs[i].Addr,
				best.Index, best.Addr), "peers need an address of the same kind", unset)
		}
		return newFinding(Info, fmt.Sprintf("%s has %v there", name, p.GIDs[i].Addr),
			"the index differs between nodes, and changes when addresses come and go", unset)
	})
	if all == nil {
		return infoFinding("%s=%d, but there is no active RDMA port that ibrun can use", variable, index)
	}
	return all
}
