package gate

import "container/heap"

// An element of a queue knows its index.
type element[T any] interface {
	before(other T) bool
	move(index int)
}

var (
	_ element[*call]  = (*call)(nil)
	_ element[*scope] = (*scope)(nil)
)

// A queue is ordered by before.
type queue[T element[T]] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].move(i)
	q[j].move(j)
}

// Push is for package heap.
func (q *queue[T]) Push(x any) {
	x.(T).move(len(*q))
	*q = append(*q, x.(T))
}

// Pop is for package heap.
func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	clear((*q)[last:])
	*q = (*q)[:last]
	x.move(-1)
	return x
}

func (q *queue[T]) add(x T)          { heap.Push(q, x) }
func (q *queue[T]) remove(index int) { heap.Remove(q, index) }
