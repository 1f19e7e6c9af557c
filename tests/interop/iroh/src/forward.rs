// SPDX-License-Identifier: Apache-2.0
//! The leanest pair of forwarders iroh allows: bytes of TCP connections on streams, nothing added.
use crate::endpoint::{EndpointArgs, Node, close, print_paths, say};
use bytes::{Buf, Bytes, BytesMut};
use iroh::endpoint::{Connection, RecvStream, SendStream};
use n0_error::{Result, StdResultExt};
use serde_json::json;
use std::{io::IoSlice, net::SocketAddr};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf, tcp::OwnedWriteHalf},
    signal::unix::Signal,
};

const PIECE: usize = 128 << 10;
const PIECES: usize = 64; // of received packets that one write takes

fn alpn(n: usize) -> Vec<u8> {
    format!("spanwire-bench/{n}").into_bytes()
}

async fn into_stream(mut tcp: OwnedReadHalf, mut send: SendStream) -> Result<()> {
    let mut buf = BytesMut::new();
    loop {
        buf.reserve(PIECE);
        if tcp.read_buf(&mut buf).await? == 0 {
            return send.finish().anyerr();
        }
        send.write_chunk(buf.split().freeze()).await.anyerr()?;
    }
}

async fn write_pieces(tcp: &mut OwnedWriteHalf, mut pieces: &mut [Bytes]) -> Result<()> {
    while !pieces.is_empty() {
        let slices: Vec<_> = pieces.iter().map(|p| IoSlice::new(p)).collect();
        let mut n = tcp.write_vectored(&slices).await?;
        while let Some(first) = pieces.first_mut() {
            let part = n.min(first.len());
            first.advance(part);
            n -= part;
            if !first.is_empty() {
                break;
            }
            pieces = &mut pieces[1..];
        }
    }
    Ok(())
}

async fn out_of_stream(mut recv: RecvStream, mut tcp: OwnedWriteHalf) -> Result<()> {
    let mut pieces = vec![Bytes::new(); PIECES];
    while let Some(n) = recv.read_many_chunks(&mut pieces).await.anyerr()? {
        write_pieces(&mut tcp, &mut pieces[..n]).await?;
    }
    tcp.shutdown().await.anyerr()
}

/// Both directions until both have ended, or one has failed: then everything is reset.
async fn join(tcp: TcpStream, send: SendStream, recv: RecvStream) -> Result<()> {
    tcp.set_nodelay(true)?;
    let (from, to) = tcp.into_split();
    tokio::try_join!(into_stream(from, send), out_of_stream(recv, to))?;
    Ok(())
}

async fn serve(conn: Connection, target: SocketAddr) {
    while let Ok((send, recv)) = conn.accept_bi().await {
        tokio::spawn(async move {
            if let Ok(tcp) = TcpStream::connect(target).await {
                let _ = join(tcp, send, recv).await;
            }
        });
    }
}

pub async fn exit(
    options: &EndpointArgs,
    targets: Vec<SocketAddr>,
    mut ends: Signal,
) -> Result<()> {
    let alpns: Vec<_> = (0..targets.len()).map(alpn).collect();
    let endpoint = options.open(alpns.clone(), &[]).await?;
    let accepting = endpoint.clone();
    tokio::spawn(async move {
        while let Some(incoming) = accepting.accept().await {
            let Ok(conn) = incoming.await else { continue };
            if let Some(n) = alpns.iter().position(|a| a == conn.alpn()) {
                print_paths(&conn);
                tokio::spawn(serve(conn, targets[n]));
            }
        }
    });
    ends.recv().await;
    close(endpoint).await
}

async fn listen_on(listener: TcpListener, conn: Connection) {
    while let Ok((tcp, _)) = listener.accept().await {
        let conn = conn.clone();
        tokio::spawn(async move {
            if let Ok((send, recv)) = conn.open_bi().await {
                let _ = join(tcp, send, recv).await;
            }
        });
    }
}

pub async fn entry(
    options: &EndpointArgs,
    node: Node,
    listen: Vec<SocketAddr>,
    mut ends: Signal,
) -> Result<()> {
    let endpoint = options.open(vec![], &[]).await?;
    for (n, addr) in listen.into_iter().enumerate() {
        let conn = endpoint.connect(node.0.clone(), &alpn(n)).await?;
        print_paths(&conn);
        tokio::spawn(listen_on(TcpListener::bind(addr).await?, conn));
    }
    say(json!({"event": "ready"}));
    ends.recv().await;
    close(endpoint).await
}
