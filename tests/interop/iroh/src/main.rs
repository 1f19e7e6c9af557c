// SPDX-License-Identifier: Apache-2.0
//! Real iroh endpoints as one program, for tests and benchmarks against Spanwire.
//!
//!   native peer               streams echoed and dialled; commands on standard input
//!   native device             iroh-proxy-utils, upstream role: serves tunnels and requests
//!   native edge NODE          iroh-proxy-utils, downstream role: TCP and HTTP in, tunnels out
//!   native exit TARGET...     each stream becomes a TCP connection to TARGET
//!   native entry NODE LISTEN...  TCP connections become streams; the Nth LISTEN has a connection of
//!                             its own, which leads to the Nth TARGET of the exit
//!
//! NODE is ID[=PLACE,...]; a PLACE is IP:PORT or relay=URL. Every role prints JSON objects, one a
//! line: {"event":"start","id":...,"addrs":[...]} first. All but 'peer' run until SIGTERM.
mod endpoint;
mod forward;
mod peer;
mod proxy;

use clap::{Parser, Subcommand};
use endpoint::{EndpointArgs, Node};
use n0_error::Result;
use std::net::SocketAddr;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    endpoint: EndpointArgs,
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    Peer(peer::PeerArgs),
    Device(proxy::DeviceArgs),
    Edge(proxy::EdgeArgs),
    Exit { targets: Vec<SocketAddr> },
    Entry { node: Node, listen: Vec<SocketAddr> },
}

async fn run(cli: Cli) -> Result<()> {
    let ends = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    match cli.role {
        Role::Peer(args) => peer::run(&cli.endpoint, args).await,
        Role::Device(args) => proxy::device(&cli.endpoint, args, ends).await,
        Role::Edge(args) => proxy::edge(&cli.endpoint, args, ends).await,
        Role::Exit { targets } => forward::exit(&cli.endpoint, targets, ends).await,
        Role::Entry { node, listen } => forward::entry(&cli.endpoint, node, listen, ends).await,
    }
}

fn main() -> Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .init();
    let cli = Cli::parse();
    let mut runtime = match cli.endpoint.threads {
        0 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if cli.endpoint.threads > 0 {
        runtime.worker_threads(cli.endpoint.threads);
    }
    runtime.enable_all().build()?.block_on(run(cli))
}
