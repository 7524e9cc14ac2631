package devices

import (
	"cmp"
	"slices"
)

// Selection is the port that a domain uses first, and the other ports of its subnet.
type Selection struct {
	Chosen Candidate   // zero if the user has named the devices
	Others []Candidate // are further rails, and take the place of Chosen if it cannot be used
}

// maxSubnets is for how many subnets a process opens a device. Each one costs memory and a poll now
// and then.
const maxSubnets = 3

// PerSubnet returns the ports to use in each subnet, at most maxSubnets. The error of each port
// says why it is left out: it lacks what is demanded.
func PerSubnet(all []Candidate, choice Choice, n Network) (list []Selection, unfit []error) {
	all, unfit = choice.fitting(all)
	// For one port there is nothing to compare, and no need to ask for the network of its address.
	if len(all) > 1 {
		for i := range all {
			all[i].subnet = choice.subnetOf(all[i].Port, n)
		}
	}
	for _, c := range onePerSubnet(all) {
		s := Selection{Chosen: c}
		for _, o := range all {
			if o.subnet == c.subnet && o.Device != c.Device {
				s.Others = append(s.Others, o)
			}
		}
		list = append(list, s)
	}
	return list, unfit
}

// onePerSubnet returns the first candidate of each subnet, at most maxSubnets. The first one is the
// best for this process alone. The others are chosen by rules that have the same result at every
// process, so that the processes of a job have a subnet in common if their nodes have.
func onePerSubnet(all []Candidate) []Candidate {
	var first []Candidate
	for _, c := range all {
		if !slices.ContainsFunc(first, func(o Candidate) bool { return o.subnet == c.subnet }) {
			first = append(first, c)
		}
	}
	slices.SortStableFunc(first[1:], func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(b.Port.Rate, a.Port.Rate), b.subnet.compare(a.subnet))
	})
	return first[:min(len(first), maxSubnets)]
}

// Rails returns the devices of a domain of n rails: the chosen port, and the next ones of its
// subnet, each of another device if there is one. Fewer are returned if the subnet has no more.
func (s *Selection) Rails(n int) []string {
	rails, devices := []string{s.Chosen.Device}, []string{s.Chosen.Name()}
	for _, again := range [...]bool{false, true} {
		for _, c := range s.Others {
			if len(rails) == n {
				return rails
			}
			if !slices.Contains(rails, c.Device) && slices.Contains(devices, c.Name()) == again {
				rails, devices = append(rails, c.Device), append(devices, c.Name())
			}
		}
	}
	return rails
}

// Without returns the selection to try when a device cannot be used. ok is false if no port is
// left.
func (s *Selection) Without(device string) (next Selection, ok bool) {
	if len(s.Others) == 0 {
		return next, false
	}
	left := slices.DeleteFunc(append([]Candidate{s.Chosen}, s.Others...), func(c Candidate) bool { return c.Device == device })
	if len(left) == 0 {
		return next, false
	}
	return Selection{left[0], left[1:]}, true
}
