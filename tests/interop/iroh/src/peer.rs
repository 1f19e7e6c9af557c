// SPDX-License-Identifier: Apache-2.0
//! An endpoint that echoes every stream it accepts, and dials and measures on command.
//!
//! Commands: 'dial NODE [ALPN]', 'echo BYTES' (on a new stream of the dialled connection, answered
//! with 'echo' once every byte came back right), 'paths', 'stats', 'close CODE', 'addrs'. The end
//! of the input ends the program.
use crate::endpoint::{EndpointArgs, Node, close, paths, print_paths, say};
use clap::Args;
use iroh::{
    Endpoint,
    endpoint::{Connection, RecvStream, SendStream, VarInt},
};
use n0_error::{Result, StdResultExt, anyerr};
use serde_json::json;
use std::{str::FromStr, time::Instant};
use tokio::io::{AsyncBufReadExt, BufReader};

const PIECE: usize = 64 << 10;

#[derive(Args)]
pub struct PeerArgs {
    #[arg(long, default_value = "spanwire-test/1")]
    alpn: String,
}

/// Byte N of what 'echo' sends: no two pieces alike, so that a missing or repeated one shows.
fn pattern(at: u64, out: &mut [u8]) {
    for (i, chunk) in out.chunks_mut(8).enumerate() {
        let word = (at / 8 + i as u64 + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

async fn echo_back(mut send: SendStream, mut recv: RecvStream) -> Result<()> {
    while let Some(piece) = recv.read_chunk(PIECE).await.anyerr()? {
        send.write_chunk(piece).await.anyerr()?;
    }
    send.finish().anyerr()
}

async fn serve(conn: Connection) {
    say(json!({"event": "accepted", "peer": conn.remote_id().to_string(), "paths": paths(&conn)}));
    print_paths(&conn);
    while let Ok((send, recv)) = conn.accept_bi().await {
        tokio::spawn(echo_back(send, recv));
    }
    say(json!({"event": "closed", "why": conn.closed().await.to_string()}));
}

async fn send_pattern(mut send: SendStream, total: u64) -> Result<()> {
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < total {
        let n = PIECE.min((total - at) as usize);
        pattern(at, &mut piece[..n]);
        send.write_all(&piece[..n]).await.anyerr()?;
        at += n as u64;
    }
    send.finish().anyerr()
}

async fn check_pattern(mut recv: RecvStream, total: u64) -> Result<()> {
    let (mut got, mut want) = (vec![0; PIECE], vec![0; PIECE]);
    let mut at = 0;
    while at < total {
        let n = PIECE.min((total - at) as usize);
        recv.read_exact(&mut got[..n]).await.anyerr()?;
        pattern(at, &mut want[..n]);
        if got[..n] != want[..n] {
            return Err(anyerr!("other bytes came back near {at}"));
        }
        at += n as u64;
    }
    match recv.read_chunk(1).await.anyerr()? {
        None => Ok(()),
        Some(_) => Err(anyerr!("more than {total} bytes came back")),
    }
}

async fn echo(conn: Connection, total: u64) {
    let begin = Instant::now();
    let result = async {
        let (send, recv) = conn.open_bi().await.anyerr()?;
        tokio::try_join!(send_pattern(send, total), check_pattern(recv, total))
    };
    let why = result.await.err().map(|e| format!("{e:#}"));
    say(
        json!({"event": "echo", "bytes": total, "ok": why.is_none(), "why": why,
               "ms": begin.elapsed().as_millis() as u64}),
    );
}

async fn dial(endpoint: &Endpoint, node: &str, alpn: &str) -> Option<Connection> {
    let result = async {
        let node = Node::from_str(node)?;
        endpoint.connect(node.0, alpn.as_bytes()).await.anyerr()
    };
    match result.await {
        Ok(conn) => {
            say(
                json!({"event": "ready", "peer": conn.remote_id().to_string(), "paths": paths(&conn)}),
            );
            print_paths(&conn);
            let watched = conn.clone();
            tokio::spawn(async move {
                say(json!({"event": "closed", "why": watched.closed().await.to_string()}));
            });
            Some(conn)
        }
        Err(e) => {
            say(json!({"event": "error", "op": "connect", "why": format!("{e:#}")}));
            None
        }
    }
}

async fn command(endpoint: &Endpoint, conn: &mut Option<Connection>, line: &str, alpn: &str) {
    let words: Vec<_> = line.split_whitespace().collect();
    match (words.as_slice(), conn.as_ref()) {
        (["dial", node], _) => *conn = dial(endpoint, node, alpn).await,
        (["dial", node, other], _) => *conn = dial(endpoint, node, other).await,
        (["echo", n], Some(c)) if n.parse::<u64>().is_ok() => {
            tokio::spawn(echo(c.clone(), n.parse().unwrap_or(0)));
        }
        (["paths"], Some(c)) => say(json!({"event": "paths", "paths": paths(c)})),
        (["stats"], Some(c)) => {
            let s = c.stats();
            say(
                json!({"event": "stats", "sent": s.udp_tx.datagrams, "sent_bytes": s.udp_tx.bytes,
                       "received": s.udp_rx.datagrams, "lost": s.lost_packets}),
            );
        }
        (["close", code], Some(c)) => {
            c.close(VarInt::from_u32(code.parse().unwrap_or(0)), b"told to")
        }
        _ => {
            say(json!({"event": "error", "op": line, "why": "not understood, or nothing dialled"}))
        }
    }
}

pub async fn run(options: &EndpointArgs, args: PeerArgs) -> Result<()> {
    let endpoint = options
        .open(vec![args.alpn.clone().into_bytes()], &[])
        .await?;
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            tokio::spawn(async move {
                match incoming.await {
                    Ok(conn) => serve(conn).await,
                    Err(e) => say(json!({"event": "refused", "why": format!("{e:#}")})),
                }
            });
        }
    });
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut conn = None;
    while let Some(line) = lines.next_line().await? {
        command(&endpoint, &mut conn, &line, &args.alpn).await;
    }
    close(endpoint).await
}
