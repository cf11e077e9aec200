package event_test

import (
	"fmt"

	"github.com/gresil/gresil/core"
	"github.com/gresil/gresil/core/event"
)

func Example() {
	log := core.Must(event.New[string](2))
	log.Add("opened")
	log.Add("half open")
	log.Add("closed")
	for id, text := range log.Since(0) {
		fmt.Println(id, text)
	}
	fmt.Println(log.Dropped(), "dropped")
	// Output:
	// 2 half open
	// 3 closed
	// 1 dropped
}

func ExampleLog_Since() {
	log := core.Must(event.New[string](100))
	log.Add("first")
	seen := log.Last() // a page that was drawn up to here asks for what is new
	log.Add("second")
	for id, text := range log.Since(seen) {
		fmt.Println(id, text)
	}
	// Output: 2 second
}
