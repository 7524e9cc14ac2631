package hw

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Family is the kind of address that a GID holds. Two ports reach each other only by GIDs of one family.
type Family string

// The families, best first. An InfiniBand port has FamilyIB alone.
const (
	FamilyIPv4      Family = "IPv4"
	FamilyIPv6      Family = "IPv6" // with a scope wider than the link
	FamilyLinkLocal Family = "link-local IPv6"
	FamilyIB        Family = "InfiniBand"
)

// Family returns the kind of address that the GID holds.
func (g GID) Family() Family {
	switch {
	case g.Type == GIDInfiniBand:
		return FamilyIB
	case g.Addr.Is4In6():
		return FamilyIPv4
	case g.Addr.IsLinkLocalUnicast():
		return FamilyLinkLocal
	}
	return FamilyIPv6
}

// String returns the GID with every property that the choice depends on: [3] ::ffff:10.0.0.1 RoCE v2 eth0.
func (g GID) String() string {
	return strings.TrimSuffix(fmt.Sprintf("[%d] %v %s %s", g.Index, g.Addr, g.Type, g.Netdev), " ")
}

// MaxGIDIndex is the highest index in a GID table that an address vector can name: it has 8 bits for it. Tables may be longer.
const MaxGIDIndex = 255

// GIDRequest restricts the choice of a GID. The zero GIDRequest means no restriction.
type GIDRequest struct {
	Netdev string // only addresses of this interface: a VLAN, a bond
	Family Family // only this family: the family of the peer
}

// GIDChoice is a chosen GID and the reason for the choice.
type GIDChoice struct {
	GID
	Reason string `json:"reason"`
}

// GIDError means that a port has no usable GID.
type GIDError struct {
	Request GIDRequest
	Refused []RefusedGID // all GIDs of the port, by index
}

// RefusedGID is a GID and the reason why it cannot be used.
type RefusedGID struct {
	GID
	Reason string `json:"reason"`
}

// Error lists every entry of the table and the reason why it was refused.
func (e *GIDError) Error() string {
	var b strings.Builder
	b.WriteString("hw: no usable GID")
	if e.Request.Family != "" {
		fmt.Fprintf(&b, " of family %s", e.Request.Family)
	}
	if e.Request.Netdev != "" {
		fmt.Fprintf(&b, " on %s", e.Request.Netdev)
	}
	if len(e.Refused) == 0 {
		b.WriteString(": the table is empty; is the interface up, and does it have an address?")
	}
	for i, r := range e.Refused {
		between := "; "
		if i == 0 {
			between = ": "
		}
		fmt.Fprintf(&b, "%s%v: %s", between, r.GID, r.Reason)
	}
	return b.String()
}

// ChooseGID chooses the GID under which peers reach a port. Its index is used in the address vector. The rule:
//
//   - Only indices up to MaxGIDIndex.
//   - On Ethernet, only RoCE v2, and only interfaces of this network namespace.
//   - A routed address is preferred to a link-local one. A link-local address is chosen if it was requested or if there is
//     no other.
//   - Then the port's own interface is preferred to interfaces on top of it, IPv4 to IPv6, and a lower index to a higher.
//   - On InfiniBand, the first GID: subnet prefix and port GUID.
//
// The index differs between nodes and changes when addresses are added or removed. Choose it for each connection, and never
// send it to the peer. Two peers need a common family: both pass a Family that both have, see [RDMAPort.GIDChoices]. The
// error is a *[GIDError].
func (p *RDMAPort) ChooseGID(req GIDRequest) (GIDChoice, error) {
	choices, refused := p.sortGIDs(req)
	if len(choices) == 0 {
		return GIDChoice{}, &GIDError{Request: req, Refused: refused}
	}
	return choices[0], nil
}

// GIDChoices returns the chosen GID of each family that the port has, best first. Two peers compare their choices to
// find a common family.
func (p *RDMAPort) GIDChoices(req GIDRequest) []GIDChoice {
	choices, _ := p.sortGIDs(req)
	seen := map[Family]bool{}
	return slices.DeleteFunc(choices, func(c GIDChoice) bool {
		again := seen[c.Family()]
		seen[c.Family()] = true
		return again
	})
}

// sortGIDs returns the usable GIDs, best first, and the other GIDs with the reasons against them.
func (p *RDMAPort) sortGIDs(req GIDRequest) (choices []GIDChoice, refused []RefusedGID) {
	for _, g := range p.GIDs {
		if reason := p.refusalReason(g, req); reason != "" {
			refused = append(refused, RefusedGID{GID: g, Reason: reason})
		} else {
			choices = append(choices, GIDChoice{GID: g, Reason: p.choiceReason(g)})
		}
	}
	slices.SortFunc(choices, func(a, b GIDChoice) int {
		return cmp.Or(cmp.Compare(p.gidRank(a.GID), p.gidRank(b.GID)), cmp.Compare(a.Index, b.Index))
	})
	return choices, refused
}

// gidRank returns the rank of a usable GID. 0 is the best.
func (p *RDMAPort) gidRank(g GID) int {
	rank := 0
	if g.Family() == FamilyLinkLocal {
		rank += 4
	}
	if g.Netdev != p.Netdev {
		rank += 2
	}
	if g.Family() == FamilyIPv6 {
		rank++
	}
	return rank
}

// refusalReason returns the reason why a GID cannot be used, or "" if it can.
func (p *RDMAPort) refusalReason(g GID, req GIDRequest) string {
	roce := p.LinkLayer == LinkEthernet
	netdev := g.Netdev
	if !roce {
		netdev = p.Netdev // IPoIB
	}
	switch {
	case p.LinkLayer != LinkEthernet && p.LinkLayer != LinkInfiniBand:
		return fmt.Sprintf("peers are not addressed by GID on link layer %q", p.LinkLayer)
	case !roce && g.Type != GIDInfiniBand:
		return "is not of type IB, the only one of InfiniBand"
	case roce && g.Type == GIDInfiniBand:
		return "is an iWARP GID; iWARP peers are addressed by IP"
	case roce && g.Type == GIDRoCEv1:
		return "is RoCE v1, which cannot be routed"
	case roce && g.Type != GIDRoCEv2:
		return "is of an unknown type"
	case g.Index > MaxGIDIndex:
		return fmt.Sprintf("its index is above %d, so that no connection can name it", MaxGIDIndex)
	case g.OtherNetns:
		return g.Netdev + " is in another network namespace"
	case req.Netdev != "" && netdev != req.Netdev:
		return "is not an address of " + req.Netdev
	case req.Family != "" && g.Family() != req.Family:
		return fmt.Sprintf("is %s, not %s", g.Family(), req.Family)
	}
	return ""
}

// choiceReason returns the reason for choosing a GID.
func (p *RDMAPort) choiceReason(g GID) string {
	family := g.Family()
	switch {
	case family == FamilyIB:
		return "the port's GUID in its subnet"
	case g.Netdev == "":
		return fmt.Sprintf("the %s address", family)
	case p.Netdev != "" && g.Netdev != p.Netdev:
		return fmt.Sprintf("the %s address of %s, on top of %s", family, g.Netdev, p.Netdev)
	}
	return fmt.Sprintf("the %s address of %s", family, g.Netdev)
}
