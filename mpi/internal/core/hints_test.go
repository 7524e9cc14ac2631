package core

import "testing"

func TestChosenRail(t *testing.T) {
	rails := []string{"mlx5_0:1", "mlx5_0:2", "rxe1"}
	for _, c := range []struct {
		device, rail string
		before, want int
	}{
		{"", "", -1, -1}, {"", "", 2, 2}, {"", "1", -1, 1}, {"", "3", 1, 1}, {"", "-1", 1, 1}, {"", "x", 1, 1}, {"", "auto", 1, -1},
		{"rxe1", "", -1, 2}, {"mlx5_0", "", -1, 0}, {"mlx5_0:2", "", -1, 1}, {"mlx5", "", 2, 2}, {"rxe1:1", "", 0, 0},
		{"rxe1", "0", -1, 2}, {"other", "0", -1, 0}, {"auto", "0", -1, 0}, {"auto", "", 2, -1}, {"rxe1", "auto", 0, 2},
	} {
		info := &Info{}
		for key, value := range map[string]string{hintDevice: c.device, hintRail: c.rail} {
			if value == "" {
				continue
			}
			if err := info.Set(key, value); err != nil {
				t.Fatal(err)
			}
		}
		if got := chooseRail(info, rails, c.before); got != c.want {
			t.Errorf("%q, %q after %d: %d, want %d", c.device, c.rail, c.before, got, c.want)
		}
		if got := chooseRail(info, nil, -1); got != -1 {
			t.Errorf("%q, %q without rails: %d", c.device, c.rail, got)
		}
	}
}
