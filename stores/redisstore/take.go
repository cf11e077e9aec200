package redisstore

import (
	"math/bits"
	"regexp"
	"strconv"

	"github.com/gresil/gresil/internal/limits"
)

var (
	takeSections = regexp.MustCompile(`(?m)^-- ([A-Z]+)\n`)
	takeNames    = regexp.MustCompile(`\b([ABCN]|LAST|[a-z]+_)\b`)
	takeWords    = regexp.MustCompile(`HEAD|SIZE|PLACE|HELP|READ|FIRSTS|CHARGE|LOOK|OVERS|STATES|STATE|FORM|STANDS|REST`)
)

// newTake returns lua/take.lua for the limits of a plan.
func newTake(p *plan) *script {
	size := len(p.head)
	words := map[string]string{
		"HEAD": p.head, "SIZE": strconv.Itoa(size), "PLACE": strconv.Itoa(size + 8), "REST": strconv.Itoa(8 + 40*len(p.parts)),
	}
	for i, part := range p.parts {
		mark, last := strconv.Itoa(i), i == len(p.parts)-1
		own := map[string]string{
			"A": number(part.a), "B": number(part.b), "C": number(part.c), "N": number(part.Capacity), "LAST": strconv.FormatBool(last),
		}
		if part.algorithm == algWindow && !part.aligned {
			own["B"] = "false"
		}
		add := func(word, text string) {
			words[word] += takeNames.ReplaceAllStringFunc(indents.ReplaceAllString(text, ""), func(name string) string {
				if n, ok := own[name]; ok {
					return n
				}
				return name + mark
			})
		}
		paths := algorithms[bits.TrailingZeros(part.algorithm)]
		helpers, name := paths[:len(paths)-1], paths[len(paths)-1]
		add("HELP", source(helpers...))
		text := source("take/size.lua", "take/"+name)
		at := append(takeSections.FindAllStringSubmatchIndex(text, -1), []int{len(text)})
		for j, is := range at[:len(at)-1] {
			add(text[is[2]:is[3]], text[is[1]:at[j+1][0]])
		}
		if !last {
			add("STATES", " .. pack('<d', #state_)")
		}
		add("STATES", " .. state_")
		add("FIRSTS", ", first_")
		add("OVERS", ", over_")
		add("STANDS", ", n_, first_, more_, full_, receipt_")
		words["FORM"] += "ddddd"
	}
	return newScript(takeWords.ReplaceAllStringFunc(read("now.lua", "take.lua"), func(word string) string { return words[word] }))
}

// takes returns the script for takes under the limits of a plan, which has their numbers in its text, or nil if the store has too many.
func (p *plan) takes(s *Store) *script {
	p.once.Do(func() { p.take = s.text(s.takes, p.head, func() *script { return newTake(p) }) })
	return p.take
}

// text returns the script of a name, or nil if the store has made too many of the kind.
func (s *Store) text(of map[string]*script, name string, build func() *script) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok := of[name]
	if !ok && len(of) < maxTexts {
		is = build()
		of[name] = is
	}
	return is
}

// forTake makes req a request for lua/take.lua, and returns false if that cannot decide it.
func (req *request) forTake() bool {
	op := &req.op
	if op.Kind != limits.Take || op.Cost < 1 || op.Cost > req.plan.Capacity {
		return false
	}
	is := req.plan.takes(req.table.store)
	if is != nil {
		req.ask(is)
	}
	return is != nil
}
