package bootstrap

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// TestCheckInfo: the RankInfo for another rank is an error. A process gets it that a rank has started through another launcher.
func TestCheckInfo(t *testing.T) {
	info := &ranklink.RankInfo{Rank: 2, Size: 4, NodeRanks: []int{2, 3}}
	if err := errors.Join(checkInfo(nil, 0, 2), checkInfo(info, 2, 4)); err != nil {
		t.Error(err)
	}
	for _, world := range [][2]int{{0, 4}, {2, 3}} {
		if err := checkInfo(info, world[0], world[1]); err == nil || !strings.Contains(err.Error(), "IBRUN_FD unset") {
			t.Errorf("rank %d of %d: %v", world[0], world[1], err)
		}
	}
}

// TestRankInfo: ibrun's decisions about a rank take effect: its device, and whether it may spin.
func TestRankInfo(t *testing.T) {
	info := &ranklink.RankInfo{NodeRanks: []int{2, 3}, AgentPID: 7, Devices: []string{"mlx5_1"}}
	own := nodeInfoOf(info, 3)
	if got := own.numa(3); got != -1 {
		t.Errorf("an ibrun that says nothing about NUMA nodes: %d", got)
	}
	info.Localities = []ranklink.Locality{{NUMA: 0}, {NUMA: 1}}
	if own = nodeInfoOf(info, 3); own.numa(2) != 0 || own.numa(3) != 1 {
		t.Errorf("%+v", own)
	}
	n, err := nodeOf(t.Context(), nil, info, own)
	if err != nil || !slices.Equal(n.Devices, []string{"mlx5_1"}) || !slices.Equal(n.Local, []int{2, 3}) || n.Tracer != 7 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, c := range []struct {
		info  ranklink.RankInfo
		local int
		want  bool
	}{
		{ranklink.RankInfo{Cores: []int{0}}, 1 << 20, false},
		{ranklink.RankInfo{Cores: []int{0}, Oversubscribed: true}, 1, true}, // other ranks are bound to the same core
		{ranklink.RankInfo{Oversubscribed: true}, 1, true},
		{ranklink.RankInfo{}, 1, false},
		{ranklink.RankInfo{}, 1 << 20, true},
	} {
		if got, err := oversubscribed(&c.info, c.local); got != c.want || err != nil {
			t.Errorf("%+v, %d ranks: %v, %v", c.info, c.local, got, err)
		}
	}
}
