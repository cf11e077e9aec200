package bench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/gresil/gresil/internal/redisserver"
)

// A Redis is the servers of the Redis rows: one alone, and three that are a Cluster. They start at
// first use. It is for one goroutine.
type Redis struct {
	single, cluster func() (*nodes, error)
	dir             string
	started         []*redisserver.Server
	clients         []redis.UniversalClient
}

// NewRedis is for who calls Close.
func NewRedis() (*Redis, error) {
	dir, err := os.MkdirTemp("", "bench-redis")
	if err != nil {
		return nil, err
	}
	r := &Redis{dir: dir}
	r.single = sync.OnceValues(func() (*nodes, error) {
		s, err := redisserver.Start(r.dir)
		if err != nil {
			return nil, err
		}
		client := r.client(s)
		return &nodes{client: client, all: []*redis.Client{client}}, nil
	})
	r.cluster = sync.OnceValues(r.startCluster)
	return r, nil
}

// Close ends the clients and the servers.
func (r *Redis) Close() error {
	for _, c := range r.clients {
		_ = c.Close()
	}
	for _, s := range r.started {
		s.Kill()
	}
	return os.RemoveAll(r.dir)
}

// Addr is where a server listens that is alone.
func (r *Redis) Addr() (string, error) {
	n, err := r.single()
	if err != nil {
		return "", err
	}
	return n.all[0].Options().Addr, nil
}

// client makes the client of a server, which both end with r.
func (r *Redis) client(s *redisserver.Server) *redis.Client {
	r.started = append(r.started, s)
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	r.clients = append(r.clients, client)
	return client
}

// nodes are the servers behind a client.
type nodes struct {
	client redis.UniversalClient
	all    []*redis.Client
}

// startCluster starts three servers that share the slots.
func (r *Redis) startCluster() (*nodes, error) {
	servers, err := redisserver.StartCluster(r.dir)
	if err != nil {
		return nil, err
	}
	n := &nodes{client: redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers.Addrs(), ContextTimeoutEnabled: true})}
	for _, s := range servers {
		n.all = append(n.all, r.client(s))
	}
	r.clients = append(r.clients, n.client)
	return n, nil
}

// cpu is the processor time that the servers have used.
func (n *nodes) cpu(ctx context.Context) (time.Duration, error) {
	sum := 0.0
	for _, node := range n.all {
		for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
			v, err := infoField(ctx, node, "cpu", field)
			if err != nil {
				return 0, err
			}
			sum += v
		}
	}
	return time.Duration(sum * 1e9), nil
}

// RedisCPU is the processor time that a server has used.
func RedisCPU(ctx context.Context, client *redis.Client) (time.Duration, error) {
	return (&nodes{all: []*redis.Client{client}}).cpu(ctx)
}

// infoField is a number of INFO.
func infoField(ctx context.Context, client *redis.Client, section, name string) (float64, error) {
	info, err := client.Info(ctx, section).Result()
	if err != nil {
		return 0, err
	}
	_, rest, found := strings.Cut(info, "\n"+name+":")
	if !found {
		return 0, fmt.Errorf("the server's INFO has no %s", name)
	}
	value, _, _ := strings.Cut(rest, "\r")
	return strconv.ParseFloat(value, 64)
}
