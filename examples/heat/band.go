package main

import (
	"image"
	"image/color"
	"image/png"
	"io"

	"github.com/ibrun/ibrun/mpi"
)

// band is the part of the plate that one rank stores: its own rows, and copies of the row above and of the row below them.
type band struct {
	size     int       // points in a row
	rows     int       // of its own
	now, old []float64 // rows+2 rows: above, own, below
}

// newBand returns the rows from first up to, but not including, last, with a hot disc in the middle of the plate.
func newBand(size, first, last int) *band {
	b := &band{size: size, rows: last - first}
	b.now, b.old = make([]float64, (b.rows+2)*size), make([]float64, (b.rows+2)*size)
	for i := range b.own() {
		x, y := i%size-size/2, first+i/size-size/2
		if x*x+y*y < size*size/16 {
			b.own()[i] = 1
		}
	}
	return b
}

// row returns row i: 0 is the row above, 1 the first own row, rows+1 the row below.
func (b *band) row(i int) []float64 { return b.now[i*b.size : (i+1)*b.size] }

func (b *band) own() []float64 { return b.now[b.size : (b.rows+1)*b.size] }

// exchange sends the first and the last row to the neighbours and receives theirs. The ranks at the ends of the plate use
// ProcNull as the missing neighbour: such a transfer does nothing, and the row beyond the end stays cold.
func (b *band) exchange(world *mpi.Comm) error {
	const tagUp, tagDown = 1, 2
	up, down := world.Rank()-1, world.Rank()+1
	if world.Rank() == 0 {
		up = mpi.ProcNull
	}
	if down == world.Size() {
		down = mpi.ProcNull
	}
	if _, err := mpi.Sendrecv(world, b.row(1), up, tagUp, b.row(b.rows+1), down, tagUp); err != nil {
		return err
	}
	_, err := mpi.Sendrecv(world, b.row(b.rows), down, tagDown, b.row(0), up, tagDown)
	return err
}

// step computes the heat flow between each point and its four neighbours. Points beyond the edges of the plate are cold.
func (b *band) step() {
	const flow = 0.2 // of the difference, in one step; stable up to 0.25
	b.now, b.old = b.old, b.now
	for i := b.size; i < (b.rows+1)*b.size; i++ {
		around := b.old[i-b.size] + b.old[i+b.size]
		if i%b.size > 0 {
			around += b.old[i-1]
		}
		if i%b.size < b.size-1 {
			around += b.old[i+1]
		}
		b.now[i] = b.old[i] + flow*(around-4*b.old[i])
	}
}

// draw paints cold points dark blue and hot ones yellow.
func draw(out io.Writer, plate []float64, size int) error {
	img := image.NewRGBA(image.Rect(0, 0, size, size))
	for i, heat := range plate {
		red, green, blue := uint8(255*heat), uint8(220*heat*heat), uint8(96*(1-heat))
		img.SetRGBA(i%size, i/size, color.RGBA{red, green, blue, 255})
	}
	return png.Encode(out, img)
}
