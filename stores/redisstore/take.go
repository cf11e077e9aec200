package redisstore

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"

	"github.com/gresil/gresil/internal/limits"
)

var (
	sectionHeads = regexp.MustCompile(`(?m)^-- ([A-Z]+)\n`)
	partNames    = regexp.MustCompile(`\b([ABCN]|LAST|[a-z]+_)\b`)
)

// sections returns the sections of a part of lua/take.lua.
func sections(text string) map[string]string {
	all, at := map[string]string{}, sectionHeads.FindAllStringSubmatchIndex(text, -1)
	for i, is := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		all[text[is[2]:is[3]]] = indents.ReplaceAllString(text[is[1]:end], "")
	}
	return all
}

// newTake returns lua/take.lua for the limits of a plan.
func newTake(p *plan) *script {
	var help, reads, charges, looks, writes []string
	var firsts, overs, reply []string
	text := "pack('<d', now)"
	for i, part := range p.parts {
		mark := number(int64(i))
		own := map[string]string{
			"A": number(part.a), "B": number(part.b), "C": number(part.c), "N": number(part.Capacity),
			"LAST": fmt.Sprint(i == len(p.parts)-1),
		}
		if part.algorithm == algWindow && !part.aligned {
			own["B"] = "false"
		}
		fill := func(text string) string {
			return partNames.ReplaceAllStringFunc(text, func(name string) string {
				if n, ok := own[name]; ok {
					return n
				}
				return name + mark
			})
		}
		paths := algorithms[bits.TrailingZeros(part.algorithm)]
		name := paths[len(paths)-1]
		of := sections(source("take/" + name))
		if of["HELP"] += read(paths[:len(paths)-1]...); !slices.Contains(help, of["HELP"]) {
			help = append(help, of["HELP"])
		}
		reads = append(reads, fill(read("take/size.lua")+of["READ"]))
		charges = append(charges, fill(of["CHARGE"]))
		looks = append(looks, fill(of["LOOK"]))
		writes = append(writes, fill("local state_ = "+of["STATE"]))
		firsts, overs = append(firsts, fill("first_")), append(overs, fill("over_"))
		reply = append(reply, fill("n_, first_, more_, full_, receipt_"))
		if i < len(p.parts)-1 {
			text += fill(" .. pack('<d', #state_) .. state_")
		} else {
			text += fill(" .. state_")
		}
	}
	size := len(p.head)
	return newScript(strings.NewReplacer(
		"HELP\n", strings.Join(help, ""), "READ\n", strings.Join(reads, ""), "CHARGE\n", strings.Join(charges, ""),
		"LOOK\n", strings.Join(looks, ""), "WRITE\n", strings.Join(writes, ""), "TEXT", text,
		"FIRSTS", strings.Join(firsts, ", "), "OVERS", strings.Join(overs, ", "),
		"REPLY", "'<"+strings.Repeat("d", 2+5*len(p.parts))+"', granted, first, "+strings.Join(reply, ", "),
		"REST", number(int64(8+40*len(p.parts))), "LIMIT", "'"+p.head+"'", "FORM", fmt.Sprintf("'<c%ddd'", size), "PLACE", fmt.Sprintf("'%d'", size+8),
	).Replace(read("take.lua")))
}

// takes returns the script for takes under the limits of a plan, which has their numbers in its text, or nil if the store has made too many.
func (p *plan) takes(s *Store) *script {
	p.once.Do(func() { p.take = s.text(p.head, func() *script { return newTake(p) }) })
	return p.take
}

// text returns the script with the numbers of limits in its text, or nil if the store has made too many.
func (s *Store) text(name string, make func() *script) *script {
	s.mu.Lock()
	defer s.mu.Unlock()
	is, ok := s.texts[name]
	if !ok && len(s.texts) < maxTexts {
		is = make()
		s.texts[name] = is
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
		req.forAccount(0)
		req.script, req.all = is, false
	}
	return is != nil
}
