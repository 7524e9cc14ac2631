package hw_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/hw"
)

func TestAssignDevices(t *testing.T) {
	for _, c := range []struct {
		name, machine string
		ranks         string // the PUs of each
		devices       string
		want          string
	}{
		{"each to its socket", "two-sockets", "0 2 1 3", "10:00.0/a@0 80:00.0/b@1", "a a b b"},
		{"fair among equals", "two-sockets", "0 2 4 6 1", "10:00.0/a@0 11:00.0/b@0 80:00.0/c@1", "a b a b c"},
		{"unbound ranks over all", "two-sockets", "0-15 0-15 0-15", "10:00.0/a@0 80:00.0/b@1", "a b a"},
		{"cards before their ports", "two-sockets", "0 2 4 6", "10:00.0/a@0 10:00.1/b@0 11:00.0/c@0 11:00.1/d@0", "a c b d"},
		{"ports of one device", "two-sockets", "0 2", "10:00.0/a:2@0 10:00.0/a:1@0", "a:1 a:2"},
		{"order of the list does not count", "two-sockets", "0 2", "11:00.0/b@0 10:00.0/a@0", "a b"},
		{"crossing sockets", "two-sockets", "1 3", "10:00.0/a@0 11:00.0/b@0", "a! b!"},
		{"the nearer of other nodes", "dies", "0-1 2-3 4-5", "10:00.0/a@1 80:00.0/b@2", "a a b"},
		{"unknown before another socket", "dies", "0 0", "10:00.0/a@-1 80:00.0/b@2", "a a"},
		{"unknown and near", "dies", "0 4", "10:00.0/a@-1 80:00.0/b@2", "a b"},
		{"all unknown", "dies", "0 4 6", "10:00.0/a@-1 80:00.0/b@-1", "a b a"},
		{"none", "dies", "0 4", "", ""},
	} {
		top := read(t, c.machine)
		var ranks [][]int
		for _, word := range strings.Fields(c.ranks) {
			var pus []int
			for pu := range 16 {
				if word == fmt.Sprint(pu) || word == "0-15" || strings.HasPrefix(word, fmt.Sprint(pu)+"-") {
					pus = append(pus, pu)
				}
			}
			ranks = append(ranks, pus)
		}
		var devices []hw.Candidate
		for _, word := range strings.Fields(c.devices) {
			devices = append(devices, parseCandidate(word))
		}
		choices := top.AssignDevices(ranks, devices)
		var got []string
		for _, choice := range choices {
			word := choice.String()
			if choice.Warning != "" {
				word += "!"
			}
			got = append(got, word)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: devices are %q, want %q", c.name, got, c.want)
		}
		slices.Reverse(devices)
		if again := top.AssignDevices(ranks, devices); !reflect.DeepEqual(again, choices) {
			t.Errorf("%s: with the devices in another order, the choice is %v instead of %v", c.name, again, choices)
		}
	}
}

func TestAssignDevicesWarning(t *testing.T) {
	choices := read(t, "two-sockets").AssignDevices([][]int{{0}, {1, 3}}, []hw.Candidate{parseCandidate("10:00.0/mlx5_0:1@0")})
	const want = "rank 1 on PUs 1,3 is in another package than mlx5_0:1, the nearest device (NUMA node 0): " +
		"its traffic crosses sockets"
	if choices[0].Warning != "" || choices[1].Warning != want {
		t.Errorf("warnings are %q and %q, want none and %q", choices[0].Warning, choices[1].Warning, want)
	}
	if near := read(t, "two-sockets").Nearest([]int{2}, read(t, "two-sockets").GPUCandidates()); len(near) != 2 ||
		near[0].Name != "card0" || near[1].Name != "card1" {
		t.Errorf("the GPUs nearest to PU 2 are %v, want card0 and card1", near)
	}
}
