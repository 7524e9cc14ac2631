package bootstrap

import (
	"slices"
	"testing"

	"github.com/ibrun/ibrun/internal/ranklink"
)

// TestHello: ibrun's decisions about a rank take effect: its device, and whether it may spin.
func TestHello(t *testing.T) {
	n, err := nodeOf(t.Context(), nil, &ranklink.RankInfo{NodeRanks: []int{2, 3}, AgentPID: 7, Devices: []string{"mlx5_1"}})
	if err != nil || !slices.Equal(n.Devices, []string{"mlx5_1"}) || !slices.Equal(n.Local, []int{2, 3}) || n.Tracer != 7 {
		t.Errorf("%+v, %v", n, err)
	}
	for _, c := range []struct {
		hello ranklink.RankInfo
		local int
		want  bool
	}{
		{ranklink.RankInfo{Cores: []int{0}}, 1 << 20, false},
		{ranklink.RankInfo{Cores: []int{0}, Oversubscribed: true}, 1, true}, // other ranks are bound to the same core
		{ranklink.RankInfo{Oversubscribed: true}, 1, true},
		{ranklink.RankInfo{}, 1, false},
		{ranklink.RankInfo{}, 1 << 20, true},
	} {
		if got, err := oversubscribed(&c.hello, c.local); got != c.want || err != nil {
			t.Errorf("%+v, %d ranks: %v, %v", c.hello, c.local, got, err)
		}
	}
}
